/** The kinds of background units: the letters of their ids, and which can be started. */

import type { DaemonKind } from "../plugin/index.ts";

/** A letter that begins the ids of a kind. */
const PREFIXES: Readonly<Record<DaemonKind, string>> = {
  local_bash: "b",
  local_agent: "a",
  monitor: "m",
  lsp: "l",
  remote_agent: "r",
  in_process_teammate: "t",
  local_workflow: "w",
  dream: "d",
};

export const DAEMON_KINDS = [
  "local_bash",
  "local_agent",
  "monitor",
  "lsp",
  "remote_agent",
  "in_process_teammate",
  "local_workflow",
  "dream",
] as const satisfies readonly DaemonKind[];

/** Kinds that have an id, metadata and a rendering, but no implementation yet. */
export const RESERVED_KINDS: ReadonlySet<DaemonKind> = new Set([
  "remote_agent",
  "in_process_teammate",
  "local_workflow",
  "dream",
]);

const UNKNOWN_PREFIX = "x";
const ID_CHARS = 8;
const BASE = 36;
/** Hexadecimal digits at the end of a UUID that are random only. */
const RANDOM_DIGITS = 15;

/** Returns a new id: the letter of the kind and eight base-36 characters of the random end of a new UUID. */
export function generateID(kind: string, uuid: string): string {
  const prefix = isKind(kind) ? PREFIXES[kind] : UNKNOWN_PREFIX;
  const random = BigInt(`0x${uuid.replaceAll("-", "").slice(-RANDOM_DIGITS)}`).toString(BASE);
  return prefix + random.slice(-ID_CHARS).padStart(ID_CHARS, "0");
}

function isKind(kind: string): kind is DaemonKind {
  return Object.hasOwn(PREFIXES, kind);
}
