import { expect, test } from "bun:test";
import type { Process } from "../../../src/kernel/process/process.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, type Signal } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { settled } from "../../support/fake-clock.ts";
import { KernelHarness, says, script } from "../../support/kernel.ts";
import { seeded } from "../../support/seeded.ts";

const PROCESSES = 40;
const TURNS = 600;

interface Sent {
  from: number;
  to: number;
  n: number;
  /** Send has returned: the message is the receiver's. */
  accepted: boolean;
}

/** Takes messages until it is asked to stop, and records each. */
async function reader(h: KernelHarness, got: Map<number, string[]>): Promise<Process> {
  const built = Promise.withResolvers<Process>();
  await h.kernel.processes.spawnTask(
    "command",
    async (proc) => {
      built.resolve(proc);
      const mine: string[] = [];
      got.set(proc.pid, mine);
      while (!proc.stopped) {
        const message = await h.kernel.ipc.recv(proc.pid, { timeoutMs: 5 }).catch((error: unknown) => {
          if (error instanceof SyscallError && ["TIMEOUT", "CANCELLED"].includes(error.code))
            return undefined;
          throw error;
        });
        if (message) mine.push(`${message.from_pid} ${message.data}`);
      }
      return { kind: "stopped", status: proc.stopped };
    },
    "read",
    null,
    h.opts(),
  );
  return built.promise;
}

test.each([1, 2, 3, 4])("seed %d: kills lose, double and reorder no message", async (seed) => {
  const random = seeded(seed);
  const below = (n: number): number => Math.floor(random() * n);
  await using h = new KernelHarness({ model: script(says("")) });
  const got = new Map<number, string[]>();
  const procs: Process[] = [];
  for (let n = 0; n < PROCESSES; n++) procs.push(await reader(h, got));
  const one = (): Process => {
    const proc = procs[below(procs.length)];
    if (!proc) throw new Error("no process");
    return proc;
  };
  const signal = (proc: Process, number: Signal): void => {
    if (proc.state === "running") h.kernel.processes.kill(proc.pid, number);
  };
  const sent: Sent[] = [];
  const sends: Promise<unknown>[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const act = below(100);
    if (act < 80) {
      const message: Sent = { from: one().pid, to: one().pid, n: turn, accepted: false };
      sent.push(message);
      sends.push(
        h.kernel.ipc.send(message.from, message.to, `${turn}`).then(
          () => {
            message.accepted = true;
          },
          (error: SyscallError) => expect(["CLOSED", "NOT_FOUND", "EXHAUSTED"]).toContain(error.code),
        ),
      );
    } else if (act < 85) signal(one(), SIGPAUSE);
    else if (act < 90) signal(one(), SIGRESUME);
    else if (act < 93) signal(one(), SIGKILL);
    else await settled();
  }
  await Promise.all(sends);
  for (const proc of procs) signal(proc, SIGKILL);
  await Promise.all(procs.map((proc) => proc.done));
  expect(sent.filter(({ accepted }) => accepted).length).toBeGreaterThan(TURNS / 5);
  expect(sent.filter(({ accepted }) => !accepted).length).toBeGreaterThan(0);
  for (const proc of procs) {
    const read = got.get(proc.pid) ?? [];
    const { unread } = await h.runs.inbox(proc.uuid);
    const waiting = unread.map((entry) =>
      entry.kind === "message" ? `${entry.from_pid} ${entry.data}` : "",
    );
    const mine = sent.filter(({ to }) => to === proc.pid);
    const accepted = mine.filter((message) => message.accepted).map(({ from, n }) => `${from} ${n}`);
    expect([...read, ...waiting].toSorted()).toEqual(accepted.toSorted());
    for (const from of new Set(mine.map((message) => message.from))) {
      const turns = [...read, ...waiting]
        .filter((text) => text.startsWith(`${from} `))
        .map((text) => Number(text.split(" ")[1]));
      expect(turns).toEqual(turns.toSorted((a, b) => a - b));
    }
  }
});
