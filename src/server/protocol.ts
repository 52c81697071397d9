import type { z } from "zod";
import { DAEMON_METHODS, type DaemonAnswers } from "./protocol/daemon.ts";
import { PROCESS_METHODS, type ProcessAnswers } from "./protocol/process.ts";
import { PROJECT_METHODS, type ProjectAnswers } from "./protocol/project.ts";
import { RECORD_METHODS, type RecordAnswers } from "./protocol/record.ts";
import { RUN_METHODS, type RunAnswers } from "./protocol/run.ts";

/*
 * The NDJSON protocol (seeds 5.3 to 5.9, interfaces §5): one JSON object per line, requests in, answers and
 * stream events out. This file and the folder of its name are its only definition; the server checks requests
 * with it, the client takes its types from it.
 */

export type { CollectedLine, CollectReport } from "./collector.ts";
export { PROTOCOL } from "./frame.ts";
export type * from "./protocol/daemon.ts";
export type * from "./protocol/fields.ts";
export type * from "./protocol/project.ts";
export type * from "./protocol/receipt.ts";
export type * from "./protocol/record.ts";
export type * from "./protocol/replay.ts";
export * from "./protocol/request.ts";
export type * from "./protocol/run.ts";
export type * from "./protocol/stream.ts";

/**
 * Every method, with what makes the schema of its payload: the server builds it at the method's first call.
 * `streaming` ones take the connection over and close it.
 */
export const METHODS = {
  ...DAEMON_METHODS,
  ...RUN_METHODS,
  ...PROCESS_METHODS,
  ...RECORD_METHODS,
  ...PROJECT_METHODS,
};

export type Method = keyof typeof METHODS;
export type Payload<M extends Method> = z.infer<ReturnType<(typeof METHODS)[M]["payload"]>>;
export type StreamingMethod = {
  [M in Method]: (typeof METHODS)[M]["streaming"] extends true ? M : never;
}[Method];
export type PlainMethod = Exclude<Method, StreamingMethod>;

/** What each method answers in `payload`. A streaming method answers this first, then its events. */
export interface Answers extends DaemonAnswers, RunAnswers, ProcessAnswers, RecordAnswers, ProjectAnswers {}
