/** W3C Trace Context of runs: the ids of their spans follow from their records, so they are the same after a resume. */

/** The place of a run in a trace. */
export interface TraceContext {
  /** 32 hex digits. */
  traceId: string;
  /** The span of the caller, 16 hex digits; undefined: the run is the root of its trace. */
  parentId: string | undefined;
  /** The caller records its spans. */
  isSampled: boolean;
}

/** What identifies a run: its UUID, and the variable TRACEPARENT of its environment. */
export interface TracedRun {
  uuid: string;
  traceparent: string | undefined;
}

const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** The trace that TRACEPARENT names, else a trace of the run's own. A wrong value counts as none, as the standard says. */
export function traceOf({ uuid, traceparent = "" }: TracedRun): TraceContext {
  const [, traceId, parentId, flags] = TRACEPARENT.exec(traceparent.trim()) ?? [];
  if (traceId === undefined || flags === undefined)
    return { traceId: uuid.replaceAll("-", ""), parentId: undefined, isSampled: true };
  return { traceId, parentId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The id of the span of a run, or of what `key` names in all runs, such as a tool call. */
export function spanIdOf(key: string): string {
  return new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, 16);
}

/** The key of the span of a step's model request. */
export function chatKey(uuid: string, step: number): string {
  return `${uuid}:${step}`;
}

/** The value for what the run calls: its parent is the span with this key. */
export function traceparentOf(run: TracedRun, key: string): string {
  const { traceId, isSampled } = traceOf(run);
  return `00-${traceId}-${spanIdOf(key)}-${isSampled ? "01" : "00"}`;
}
