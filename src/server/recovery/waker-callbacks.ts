import type { Kernel } from "../../kernel/kernel.ts";
import type { KernelCallbacks } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { History } from "../records/history.ts";
import type { AutoResume } from "./auto-resume.ts";
import { Waker } from "./waker.ts";

/** Tells the waker who is laid down, who goes on and who has ended. */
export function wakerCallbacks(
  parts: () => { waker: Waker | undefined; kernel: Pick<Kernel, "processes"> },
): KernelCallbacks {
  return {
    onSpawn(pid) {
      const { waker, kernel } = parts();
      waker?.began(kernel.processes.info(pid).uuid);
    },
    onStep() {},
    onError() {},
    onComplete(pid, _result, { suspended }) {
      const { waker, kernel } = parts();
      const { uuid } = kernel.processes.info(pid);
      if (suspended) waker?.suspended({ uuid, wake: suspended.wake, kept: kernel.processes.inherited(pid) });
      else waker?.ended(uuid);
    },
  };
}

/** Both are told everything, in this order. */
export function eachOf(one: KernelCallbacks, other: KernelCallbacks): KernelCallbacks {
  return {
    onSpawn(...args) {
      one.onSpawn(...args);
      other.onSpawn(...args);
    },
    onStep(...args) {
      one.onStep(...args);
      other.onStep(...args);
    },
    onComplete(...args) {
      one.onComplete(...args);
      other.onComplete(...args);
    },
    onError(...args) {
      one.onError(...args);
      other.onError(...args);
    },
  };
}

interface WakerParts {
  clock: Clock;
  history: Pick<History, "sleepers" | "byUuid">;
  kernel: Kernel;
  unattended: Pick<AutoResume, "resume">;
  runs(dataDir: string): RunStore;
  log(level: "info" | "warn", source: string, text: string): void;
}

/** The waker over the records of all projects. */
export function wakerOf({ clock, history, kernel, unattended, runs, log }: WakerParts): Waker {
  const dataDirOf = async (uuid: string): Promise<string | undefined> =>
    (await history.byUuid(uuid))?.records.dataDir;
  return new Waker({
    clock,
    log,
    sleepers: () => history.sleepers(),
    info: async (uuid) => (await history.byUuid(uuid))?.info,
    async hasMessage(uuid) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir === undefined) return false;
      const { unread } = await runs(dataDir).inbox(uuid);
      return unread.some(({ kind }) => kind === "message");
    },
    resume: (uuid, why, kept) => unattended.resume(uuid, why, kept),
    async leave(uuid, why) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir !== undefined) await kernel.lifecycle.leave(uuid, dataDir, why);
    },
  });
}
