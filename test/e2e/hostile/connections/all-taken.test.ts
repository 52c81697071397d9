import { expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { MAX_CONNECTIONS } from "../../../../src/server/server.ts";
import { until } from "../../../support/until.ts";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { RawClient } from "../../support/wire.ts";

/** Connections that stay open and ask for nothing, until the daemon refuses more of them. */
async function holdAll(machine: Machine): Promise<AsyncDisposable> {
  const open = new Set<Socket>();
  let refused = 0;
  let ended = 0;
  while (refused === 0) {
    if (open.size >= MAX_CONNECTIONS + 200) {
      await Bun.sleep(5);
      continue;
    }
    const stream = connect({ path: machine.socket, allowHalfOpen: true });
    const isOpen = await new Promise<boolean>((resolve) => {
      stream.once("connect", () => resolve(true));
      stream.once("error", () => resolve(false));
    });
    stream.on("error", () => stream.destroy());
    // One that the system has closed before the daemon saw it takes no place.
    stream.on("close", () => open.delete(stream));
    stream.on("data", () => refused++);
    stream.on("end", () => ended++);
    if (isOpen) open.add(stream);
    // The system lets no more of them wait to be accepted: the daemon has its turn.
    else await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => open.size - ended <= MAX_CONNECTIONS, "an answer for each that is too many");
  // The daemon may see the end of an earlier command only now: its place is taken, too.
  const more: RawClient[] = [];
  for (let inARow = 0; inARow < 2; ) {
    const client = await RawClient.connect(machine.socket).catch(() => undefined);
    if (client) more.push(client);
    const isServed = await client?.ask("ping").then(
      ({ ok }) => ok,
      () => false,
    );
    inARow = isServed ? 0 : inARow + 1;
  }
  return {
    async [Symbol.asyncDispose]() {
      for (const stream of [...open, ...more]) stream.destroy();
    },
  };
}

test("every command says that a daemon with all connections taken is busy, not absent", async () => {
  await using machine = new Machine();
  await machine.run(["daemon", "start"]);
  {
    await using _held = await holdAll(machine);
    for (const args of [["ps"], ["ps", "-a"], ["daemon", "status"], ["daemon", "stop"], ["tools"]]) {
      const { code, stdout, stderr } = await machine.run(args);
      expect({ args, code }).toEqual({ args, code: 69 });
      expect(stdout + stderr).not.toContain("no daemon");
      expect(stderr).toMatch(/accepts no (connection|more)/);
    }
  }
  await until(async () => (await machine.run(["ps"])).code === 0, "a free connection");
});

test("a run that takes all the connections it can get does not block the user's commands", async () => {
  await using machine = new Machine();
  const hoard = `perl -MIO::Socket::UNIX -e 'my @all; for (1..1500) { my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]); push @all, $s if $s } open my $f, ">", "held"; close $f; sleep 600' '${machine.socket}'`;
  await machine.play({ "take them": [bash(hoard), says("taken")] });
  await machine.run(["spawn", "take them", "--detach"]);
  await until(() => machine.has("held"), "all connections");
  for (let n = 0; n < 5; n++) expect(await machine.run(["ps"])).toMatchObject({ code: 0 });
  await machine.ok(["kill", "1"]);
});
