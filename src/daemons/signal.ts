/** What a unit reports to its agent: that it has ended, or a line of its stream. */

import type { Daemon, DaemonKind, DaemonSnapshot, DaemonStatus } from "../plugin/index.ts";

interface Signalled {
  daemonId: string;
  kind: DaemonKind;
  /** Unix ms. */
  at: number;
  /** As it was when the signal was made. */
  snapshot: DaemonSnapshot;
}

interface StreamEvent {
  line: string;
  closing: boolean;
  /** All of the output before this byte is reported with it. Absent: none of the output is. */
  upTo?: number;
}

/** Exactly one of `lifecycle` and `event` is there. */
export type Signal = Signalled &
  (
    | { lifecycle: { status: DaemonStatus }; event?: undefined }
    /** `closing`: the last event before the end. */
    | { event: StreamEvent; lifecycle?: undefined }
  );

/** The signal of a terminal transition: once for each unit. */
export function newLifecycleSignal(daemon: Daemon, status: DaemonStatus, at: number): Signal {
  return { ...signalled(daemon, at), lifecycle: { status } };
}

/** The signal of one or several lines of a unit that streams. */
export function newEventSignal(
  daemon: Daemon,
  line: string,
  closing: boolean,
  at: number,
  upTo?: number,
): Signal {
  return { ...signalled(daemon, at), event: { line, closing, ...(upTo !== undefined && { upTo }) } };
}

export function isLifecycle(signal: Signal): boolean {
  return signal.lifecycle !== undefined;
}

export function isEvent(signal: Signal): boolean {
  return signal.event !== undefined;
}

function signalled(daemon: Daemon, at: number): Signalled {
  const snapshot = daemon.snapshot();
  return { daemonId: snapshot.id, kind: snapshot.kind, at, snapshot };
}
