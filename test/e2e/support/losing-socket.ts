import { mkdirSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { dirname, join } from "node:path";

/** A socket in front of a daemon's, which loses the answer to one request together with the connection. */
export class LosingSocket implements AsyncDisposable {
  /** The client's `XDG_RUNTIME_DIR`. */
  readonly folder: string;
  readonly #server: Server;
  readonly #counts = new Map<string, number>();
  #toLose: string | null = null;

  static async listen(folder: string, daemon: string): Promise<LosingSocket> {
    const made = new LosingSocket(folder, daemon);
    const socket = join(folder, "rnix/rnix.sock");
    mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
    await new Promise<void>((resolve) => made.#server.listen(socket, resolve));
    return made;
  }

  private constructor(folder: string, daemon: string) {
    this.folder = folder;
    this.#server = createServer((client) => {
      const server = connect(daemon);
      let isLost = false;
      const cut = (): void => {
        client.destroy();
        server.destroy();
      };
      for (const one of [client, server]) one.on("error", cut).on("close", cut);
      client.on("data", (data) => {
        isLost ||= this.#take(String(data));
        server.write(data);
      });
      server.on("data", (data) => {
        if (isLost && String(data).includes('"ok":true')) cut();
        else client.write(data);
      });
    });
  }

  /** Loses the answer to the next request of this method. */
  lose(method: string): void {
    this.#toLose = method;
  }

  /** How often a request of this method was sent. */
  sent(method: string): number {
    return this.#counts.get(method) ?? 0;
  }

  /** Returns whether the answer is to be lost. */
  #take(sent: string): boolean {
    const methods = [...sent.matchAll(/"method":"(\w+)"/g)].map(([, method = ""]) => method);
    for (const method of methods) this.#counts.set(method, this.sent(method) + 1);
    if (this.#toLose === null || !methods.includes(this.#toLose)) return false;
    this.#toLose = null;
    return true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
