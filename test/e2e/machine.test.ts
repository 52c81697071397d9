import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";

type Leave = (machine: Machine) => Promise<void> | void;

const LEFT: Record<string, { leave: Leave; named: RegExp }> = {
  "a process": {
    leave: (machine) => asleep(sleeper([], machine)),
    named: /process \d+: sleep/,
  },
  "a process that cleared its environment": {
    leave: (machine) => asleep(sleeper(["env", "-i"], machine)),
    named: /process \d+: .*sleep/,
  },
  "a process in a session of its own": {
    leave: async (machine) => void (await sleeper(["setsid", "--fork"], machine).exited),
    named: /process \d+: (setsid|sleep)/,
  },
  "a temporary file": {
    leave: (machine) => void machine.write(join(machine.temp, "rnix-x", "y"), ""),
    named: /file tmp\/rnix-x\/y/,
  },
  "a socket": {
    leave: (machine) => listening(machine.socket),
    named: /file run\/rnix\/rnix\.sock/,
  },
  "the lock of a kernel": {
    leave: (machine) => void machine.write(join(machine.dataDir, "kernels", "0"), ""),
    named: /file data\/rnix\/kernels\/0/,
  },
  "a ledger of programs": {
    leave: (machine) => void machine.write(join(machine.dataDir, "children", "0.jsonl"), ""),
    named: /file data\/rnix\/children\/0\.jsonl/,
  },
  "a half-written record": {
    leave: (machine) => {
      machine.write(".rnix/data/steps/0/proc-info.json", "{}");
      machine.write(".rnix/data/steps/0/~proc-info.json.tmp", "");
    },
    named: /file project\/\.rnix\/data\/steps\/0\/~proc-info\.json\.tmp/,
  },
  "a file in HOME": {
    leave: (machine) => void machine.write(join(machine.home, ".cache", "x"), ""),
    named: /file home\/\.cache\/x/,
  },
};

describe("a test machine names what is left on it when it is disposed", () => {
  for (const [what, { leave, named }] of Object.entries(LEFT)) {
    test(what, async () => {
      const machine = new Machine();
      await leave(machine);
      expect(machine.leftovers()).toEqual([expect.stringMatching(named)]);
      expect((await machine.close()).join("\n")).toMatch(named);
    });
  }

  test("nothing for a running daemon, which is stopped first", async () => {
    await using machine = new Machine();
    await machine.ok(["daemon", "start"]);
    expect(machine.daemonPid).not.toBeNull();
    expect(machine.strays()).toEqual([]);
  });
});

/** Killed by the machine's disposal, which is what is tried here. */
function sleeper(before: string[], machine: Machine): Bun.Subprocess {
  return Bun.spawn([...before, "sleep", "60"], { cwd: machine.project, env: machine.env });
}

/** Between its start and its first moment it has another's name, and what clears its environment has its own. */
function asleep({ pid }: Bun.Subprocess): Promise<void> {
  return until(() => readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("sleep"));
}

const servers: Server[] = [];

async function listening(socket: string): Promise<void> {
  mkdirSync(dirname(socket), { recursive: true, mode: 0o700 });
  const server = createServer((stream) => stream.destroy());
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(socket, resolve));
}

afterAll(() => {
  for (const server of servers) server.close();
});
