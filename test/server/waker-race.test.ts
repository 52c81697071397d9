import { expect, test } from "bun:test";
import type { PID } from "../../src/kernel/types.ts";
import { loggerTo } from "../../src/lib/logger.ts";
import { SIGKILL, SIGTERM } from "../../src/lib/signals.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { KernelEvents } from "../../src/server/boot/kernel-port.ts";
import { type Waker, wakerListener, wakerOf } from "../../src/server/recovery/waker.ts";
import { FakeClock, passing } from "../support/fake-clock.ts";
import { KernelHarness, type Model, says } from "../support/kernel.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";

const WINDOW_MS = 600_000;

/** A kernel with its waker, on a clock that a test moves. */
function withWaker(model: Model): { h: KernelHarness; clock: FakeClock; waker: Waker } {
  const clock = new FakeClock();
  const events = new KernelEvents();
  const h = new KernelHarness({
    model,
    clock,
    wakes: true,
    callbacks: events,
  });
  const waker = wakerOf({
    clock: h.clock,
    kernel: h.kernel,
    runs: () => h.runs,
    history: {
      sleepers: async () => [],
      async byUuid(uuid) {
        const info = h.kernel.processes.infos().find((one) => one.uuid === uuid) ?? (await h.runs.info(uuid));
        return info ? { info, records: h.runs } : undefined;
      },
    },
    autoResume: { resume: async (uuid) => (await h.kernel.lifecycle.resume(uuid, null, h.opts())).pid },
    logger: loggerTo(() => undefined),
  });
  events.add(wakerListener(waker, h.kernel));
  return { h, clock, waker };
}

test.each(Array.from({ length: soak(8, 30) }, (_, seed) => seed))(
  "a waker and concurrent resume and kill commands never make two processes of one run (seed %i)",
  async (seed) => {
    const random = seeded(seed);
    const asking = new Map<string, number>();
    let most = 0;
    const model: Model = async ({ intent }) => {
      asking.set(intent, (asking.get(intent) ?? 0) + 1);
      most = Math.max(most, asking.get(intent) ?? 0);
      await new Promise(setImmediate);
      asking.set(intent, (asking.get(intent) ?? 0) - 1);
      if (random() < 0.2) return says("done");
      throw new SyscallError("EXHAUSTED", "too many requests", { retryAfterMs: WINDOW_MS });
    };
    const { h, clock, waker } = withWaker(model);
    await using harness = h;
    const uuids: string[] = [];
    for (const intent of ["a", "b", "c"]) uuids.push(h.kernel.processes.info(await h.spawn(intent)).uuid);
    const going: Promise<unknown>[] = [];
    const anyhow = (work: Promise<unknown>): void => void going.push(work.catch((error) => error));
    for (let turn = 0; turn < 60; turn++) {
      const uuid = uuids[Math.floor(random() * uuids.length)] ?? "";
      const live = h.kernel.processes.infos();
      expect(new Set(live.map((info) => info.uuid)).size).toBe(live.length);
      const dice = random();
      if (dice < 0.3) anyhow(h.kernel.lifecycle.resume(uuid, null, h.opts()));
      else if (dice < 0.4) kill(h, live[0]?.pid, random() < 0.5 ? SIGKILL : SIGTERM);
      else if (dice < 0.5 && live[0])
        anyhow(h.kernel.lifecycle.suspend(live[0].pid, { wake: { on: "at", at_ms: clock.now() + 1 } }));
      else await clock.advance(random() < 0.5 ? 0 : WINDOW_MS / 2);
    }
    // A run that is just being written down is waited for, and so is a window of which little is left.
    const thrown = await passing(clock, Promise.all(going));
    for (const one of thrown)
      if (one instanceof Error)
        expect(one).toMatchObject({ code: expect.stringMatching(/INVALID|NOT_FOUND/) });
    await passing(clock, waker.close());
    await passing(
      clock,
      until(() => h.kernel.processes.count === 0),
    );
    for (const uuid of uuids) expect((await h.runs.info(uuid))?.ended_at_ms).toBeNumber();
    expect(most).toBe(1);
    expect(harness.clock.pending).toBe(0);
  },
  // Each of its suspensions waits for the disk.
  120_000,
);

/** A run that has just ended is no error. */
function kill(h: KernelHarness, pid: PID | undefined, signal: typeof SIGKILL | typeof SIGTERM): void {
  if (pid !== undefined && h.kernel.processes.infos().some((info) => info.pid === pid))
    h.kernel.processes.kill(pid, signal);
}
