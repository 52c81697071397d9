import { describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { socketPeer } from "../../src/os/socket-peer.ts";
import { descriptorOf } from "../../src/server/daemon/socket.ts";
import { until } from "../support/until.ts";
import { Bench, openDescriptors, stateOf } from "./support.ts";

const same = (pid: number): number => pid;

describe.if(process.platform === "linux")("the process at the other end", () => {
  test("is the one that connected, and nothing stays open of the look at it", async () => {
    await using bench = new Bench();
    using door = await Door.open(bench);
    const client = door.client("");
    const fd = await door.descriptor();
    const before = openDescriptors();
    for (let look = 0; look < 50; look++) expect(socketPeer(fd, same)).toBe(client.pid);
    // What else this process opens and closes meanwhile is less.
    expect(openDescriptors() - before).toBeLessThan(25);
    client.kill();
  });

  test("is null when another process has its end of the connection", async () => {
    await using bench = new Bench();
    using door = await Door.open(bench);
    const hand = `Bun.spawn(["${bench.nap}", "1000"], { stdio: [stream._handle.fd, "ignore", "ignore"] }); process.exit()`;
    const client = door.client(`stream.on("connect", () => { ${hand} });`);
    const fd = await door.descriptor();
    await client.exited;
    await until(() => stateOf(client.pid) === null && bench.naps().length === 1, "the heir");
    expect(socketPeer(fd, same)).toBe("gone");
  });

  test("is null when the connection is closed", async () => {
    await using bench = new Bench();
    using door = await Door.open(bench);
    const client = door.client("");
    await door.descriptor();
    client.kill();
    await until(() => descriptorOf(door.stream) === undefined, "the closed connection");
  });
});

/** A socket that one program connects to. */
class Door implements Disposable {
  readonly #bench: Bench;
  readonly #server: Server;
  readonly #connected = Promise.withResolvers<Socket>();
  #stream: Socket | undefined;

  private constructor(bench: Bench) {
    this.#bench = bench;
    this.#server = createServer((stream) => {
      this.#stream = stream;
      stream.on("error", () => stream.destroy());
      stream.resume();
      this.#connected.resolve(stream);
    });
  }

  static async open(bench: Bench): Promise<Door> {
    const door = new Door(bench);
    await new Promise<void>((resolve) => door.#server.listen(door.path, resolve));
    return door;
  }

  get path(): string {
    return join(this.#bench.dir, "socket");
  }

  get stream(): Socket {
    if (!this.#stream) throw new Error("no client has connected");
    return this.#stream;
  }

  client(script: string): Bun.Subprocess {
    const file = join(this.#bench.dir, "client.ts");
    if (existsSync(file)) throw new Error("there is one client");
    writeFileSync(
      file,
      `const stream: any = require("node:net").connect(${JSON.stringify(this.path)});\n${script}`,
    );
    return Bun.spawn([process.execPath, "--no-install", file], { stdio: ["ignore", "inherit", "inherit"] });
  }

  async descriptor(): Promise<number> {
    const fd = descriptorOf(await this.#connected.promise);
    if (fd === undefined) throw new Error("the connection has no descriptor");
    return fd;
  }

  [Symbol.dispose](): void {
    this.#stream?.destroy();
    this.#server.close();
  }
}
