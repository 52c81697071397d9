import { type Figure, kib } from "../figure.ts";
import { memoryOf } from "../measure.ts";
import { type Answer, BenchKernel } from "./bench-kernel.ts";

const CROWD = 10_000;
/** Until what a first process makes once is there. */
const BEFORE = 300;
/** As often as the daemon asks for a collection (src/server/daemon/daemon.ts). */
const COLLECT_EVERY = 10;
/** 20 KB of 1,000 bytes. */
const GOAL_KIB = 19.5;

/** Makes a waiting process, and returns the memory that its messages take. */
type Make = (bench: BenchKernel) => Promise<number>;

/** Memory of a process that waits for a message. */
export function idleInRecv(): Promise<Figure[]> {
  return perProcess("a process waiting in Recv", GOAL_KIB, (bench) =>
    bench.process(async (proc) => {
      await bench.kernel.ipc.recv(proc.pid).catch(() => undefined);
    }),
  );
}

/** Memory of an agent that waits until it is its turn: all but 16 of those that share a key. */
export function idleAtGate(): Promise<Figure[]> {
  return perProcess("an agent waiting for its turn at the model", GOAL_KIB, (bench) => bench.agent());
}

/** Memory of an agent whose model is at work, and may take as many calls as there are. */
export function idleInCall(): Promise<Figure[]> {
  return perProcess("an agent waiting for its model's answer", undefined, (bench) =>
    bench.agent({ concurrency: 2 * CROWD }),
  );
}

/** Growth of the resident memory per process, without the text of its conversation. */
async function perProcess(what: string, goal: number | undefined, make: Make): Promise<Figure[]> {
  await using bench = new BenchKernel(silent);
  for (let i = 0; i < BEFORE; i++) await make(bench);
  await settle();
  const before = memoryOf(process.pid).now;
  let pid = 0;
  for (let i = 0; i < CROWD; i++) {
    pid = await make(bench);
    if (i % COLLECT_EVERY === 0) Bun.gc(false);
  }
  await settle();
  const value = (memoryOf(process.pid).now - before) / CROWD - (await bench.conversationBytes(pid));
  return [{ what: `${what}, beyond its messages`, value: kib(value), unit: "KiB", goal }];
}

const silent: Answer = (signal) =>
  new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/** Until what can be given back is given back: the allocator does it in its own time. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i++) {
    Bun.gc(true);
    await Bun.sleep(250);
  }
}
