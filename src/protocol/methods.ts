import type { z } from "zod";
import { DAEMON_METHODS, type DaemonAnswers } from "./daemon.ts";
import { PROCESS_METHODS, type ProcessAnswers } from "./process.ts";
import { PROJECT_METHODS, type ProjectAnswers } from "./project.ts";
import { RECORD_METHODS, type RecordAnswers } from "./record.ts";
import { RUN_METHODS, type RunAnswers } from "./run.ts";

/*
 * The NDJSON protocol (seeds 5.3 to 5.9, interfaces §5): one JSON object per line, requests in, answers and
 * stream events out. This file and the folder of its name are its only definition; the server checks requests
 * with it, the client takes its types from it.
 */

export type { CollectedLine, CollectReport } from "../server/records/collector.ts";
export type * from "./daemon.ts";
export type * from "./fields.ts";
export { PROTOCOL } from "./frame.ts";
export type * from "./project.ts";
export type * from "./receipt.ts";
export type * from "./record.ts";
export type * from "./replay.ts";
export * from "./request.ts";
export type * from "./run.ts";
export type * from "./stream.ts";

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
