/*
 * The NDJSON protocol (interfaces §5): one JSON object per line, requests in, answers and stream events out. These are
 * the types that client and server share. Each method's own payload and answer stand with its handler, in
 * src/server/methods.
 */

export type * from "./ask.ts";
export type * from "./call.ts";
export type * from "./changes.ts";
export type * from "./daemon.ts";
export type * from "./fields.ts";
export { PROTOCOL } from "./frame.ts";
export type * from "./project.ts";
export type * from "./receipt.ts";
export type * from "./record.ts";
export * from "./request.ts";
export type * from "./run.ts";
export type * from "./stream.ts";
