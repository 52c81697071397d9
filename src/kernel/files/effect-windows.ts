/** When a run's calls and programs were under way: only then can the run have changed files. */

import type { Clock } from "../../lib/clock.ts";
import type { Process } from "../process/process.ts";

/** The clock of a file system is coarser than ours. */
const SLACK_MS = 25;
/** Windows closer than this become one. */
const JOINED_MS = 100;
/** More windows than this become fewer, longer ones. */
const MAX_WINDOWS = 1000;

interface Windows {
  closed: { from: number; to: number }[];
  open: number;
  /** Calls that wait for a person. */
  paused: number;
  /** When the first of the open ones began. */
  since: number;
  /** When its first program began, which may change files that nothing reports. */
  firstProgram: number | undefined;
}

export class EffectWindows<P extends object = Process> {
  readonly #clock: Pick<Clock, "now">;
  readonly #ancestry: (proc: P) => readonly P[];
  readonly #of = new WeakMap<P, Windows>();

  /** `ancestry`: a process and its ancestors. What it does counts for all of them. */
  constructor(clock: Pick<Clock, "now">, ancestry: (proc: P) => readonly P[]) {
    this.#clock = clock;
    this.#ancestry = ancestry;
  }

  /** Opens a window. The returned function closes it; later calls of it do nothing. */
  begin(proc: P, what: "call" | "program"): () => void {
    const now = this.#clock.now();
    const touched = this.#ancestry(proc).map((one) => this.#windowsOf(one));
    for (const windows of touched) open(windows, now, what);
    let closed = false;
    return () => {
      if (closed) return;
      closed = true;
      for (const windows of touched) close(windows, this.#clock.now());
    };
  }

  /** A call waits for a person, who may change files meanwhile. The returned function ends the wait. */
  pause(proc: P): () => void {
    const touched = this.#ancestry(proc)
      .map((one) => this.#windowsOf(one))
      .filter((windows) => windows.open > 0);
    for (const windows of touched) {
      windows.paused++;
      close(windows, this.#clock.now());
    }
    return () => {
      for (const windows of touched) {
        windows.paused--;
        open(windows, this.#clock.now(), "call");
      }
    };
  }

  /** Whether a call or a program of the process is under way, or a call waits. */
  isOpen(proc: P): boolean {
    const { open = 0, paused = 0 } = this.#of.get(proc) ?? {};
    return open + paused > 0;
  }

  /** Whether a change at this time can be the run's. */
  covers(proc: P, ms: number): boolean {
    const { closed, open, since } = this.#windowsOf(proc);
    if (open > 0 && ms >= since - SLACK_MS) return true;
    return closed.some(({ from, to }) => ms >= from - SLACK_MS && ms <= to + SLACK_MS);
  }

  /** Whether a program of the run may have changed a file that was changed again at this time by another. */
  mayHide(proc: P, ms: number): boolean {
    const { firstProgram } = this.#windowsOf(proc);
    return firstProgram !== undefined && ms >= firstProgram - SLACK_MS;
  }

  #windowsOf(proc: P): Windows {
    const known = this.#of.get(proc);
    if (known) return known;
    const windows: Windows = { closed: [], open: 0, paused: 0, since: 0, firstProgram: undefined };
    this.#of.set(proc, windows);
    return windows;
  }
}

function open(windows: Windows, now: number, what: "call" | "program"): void {
  if (what === "program") windows.firstProgram ??= now;
  if (windows.open++ > 0) return;
  const last = windows.closed.at(-1);
  windows.since = now;
  if (last === undefined || now - last.to > JOINED_MS) return;
  windows.since = last.from;
  windows.closed.pop();
}

function close(windows: Windows, now: number): void {
  if (--windows.open > 0) return;
  windows.closed.push({ from: windows.since, to: now });
  const [first, second] = windows.closed;
  if (windows.closed.length > MAX_WINDOWS && first && second)
    windows.closed.splice(0, 2, { from: first.from, to: second.to });
}
