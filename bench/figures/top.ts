import { openSession } from "../../src/client/session.ts";
import { Machine } from "../../test/e2e/support/machine.ts";
import type { Figure } from "../figure.ts";
import { cpuOf } from "../measure.ts";

const LIVE = 1000;
const WATCHED_MS = 10_000;
/** Of the model while runs work: with 16 calls at once, some 60 steps a second. */
const ANSWER_MS = 250;

/** What `rnix top` costs with a thousand live runs, of itself and of the daemon: while all wait, and while they make steps. */
export async function top(): Promise<Figure[]> {
  await using machine = new Machine();
  let held = Promise.withResolvers<void>();
  let answers = 0;
  await machine.model(async () => {
    await held.promise;
    await Bun.sleep(ANSWER_MS);
    answers++;
    return { tool_calls: [{ name: "Glob", input: { pattern: "*.none" } }] };
  });
  await machine.ok(["ps"]);
  await spawnAll(machine);
  const daemon = machine.daemonPid ?? 0;
  const share = async (...pids: number[]): Promise<number[]> => {
    const before = pids.map(cpuOf);
    await Bun.sleep(WATCHED_MS);
    return pids.map((pid, i) => ((cpuOf(pid) - (before[i] ?? 0)) / WATCHED_MS) * 100);
  };
  const watch = async (): Promise<{ own: number; ofDaemon: number; bytes: number; steps: number }> => {
    await using terminal = machine.terminal(["top"], { columns: 120, rows: 40 });
    await terminal.until(new RegExp(`${LIVE} running`));
    await Bun.sleep(2_000);
    const [written, made] = [terminal.written.length, answers];
    const [own = 0, ofDaemon = 0] = await share(terminal.pid, daemon);
    return { own, ofDaemon, bytes: terminal.written.length - written, steps: answers - made };
  };
  const waiting = await watch();
  held.resolve();
  await Bun.sleep(2_000);
  const before = answers;
  const [workAlone = 0] = await share(daemon);
  const made = answers - before;
  const working = await watch();
  held = Promise.withResolvers();
  await machine.ok(["daemon", "stop", "--now"]);
  held.resolve();
  const perSecond = (steps: number): number => Math.round((steps / WATCHED_MS) * 1000);
  const percent = (what: string, value: number, goal?: number): Figure => ({
    ...{ what, value, unit: "%", ...(goal && { goal }) },
  });
  return [
    percent(`CPU of \`rnix top\` with ${LIVE} live runs that wait, share of a core`, waiting.own, 5),
    {
      what: "written to the terminal in a second",
      value: waiting.bytes / (WATCHED_MS / 1000),
      unit: "bytes",
    },
    percent(`CPU of \`rnix top\` while they make ${perSecond(working.steps)} steps a second`, working.own, 5),
    percent("of the daemon meanwhile", working.ofDaemon),
    percent(`of the daemon without it, at ${perSecond(made)} steps a second`, workAlone),
    {
      what: "written to the terminal in a second",
      value: working.bytes / (WATCHED_MS / 1000),
      unit: "bytes",
    },
  ];
}

/** Without a command for each. */
async function spawnAll(machine: Machine): Promise<void> {
  const session = await openSession({ env: machine.env, onlyRunning: true, anyVersion: true });
  if (session === null) throw new Error("the daemon has stopped");
  for (let i = 0; i < LIVE; i++) {
    const wire = await session.connect();
    const payload = { intent: `work ${i}`, cwd: machine.project, env: machine.env, detach: true };
    await wire.open("spawn", { ...payload, max_steps: 100_000 });
    wire.close();
  }
  await session.close();
}
