/** The kinds of background units: the letters of their ids, and which can be started. */

import { type DaemonKind, SyscallError } from "../plugin/index.ts";

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

/** Kinds that have an id, metadata and a rendering, but no implementation yet. */
const RESERVED_KINDS: ReadonlySet<DaemonKind> = new Set(["remote_agent"]);

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

/** Fails with UNAVAILABLE for a reserved kind, and with INVALID for one that is no kind of a command. */
export function requireCommandKind(kind: DaemonKind): void {
  if (kind === "local_bash" || kind === "monitor") return;
  if (RESERVED_KINDS.has(kind)) {
    const message = `Units of kind ${kind} can't be started yet. Use local_bash, monitor or Agent.`;
    throw new SyscallError("UNAVAILABLE", message);
  }
  const message = `Expected a unit of kind local_bash or monitor, got ${JSON.stringify(kind)}.`;
  throw new SyscallError("INVALID", message);
}

function isKind(kind: string): kind is DaemonKind {
  return Object.hasOwn(PREFIXES, kind);
}
