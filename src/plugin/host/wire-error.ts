/** Errors as they cross the border of a plugin's process, and as text. */

import { existsSync } from "node:fs";
import { detailOf } from "../../lib/error-detail.ts";
import { type Code, SyscallError, type SyscallErrorDetail } from "../index.ts";

/** A position in a plugin's source. Line and column count from 1. */
export interface SourcePosition {
  file: string;
  line?: number;
  column?: number;
}

export interface WireError {
  /** Absent, as `detail` is, if the thrown value was no SyscallError. */
  code?: Code;
  detail?: Omit<SyscallErrorDetail, "cause">;
  name: string;
  message: string;
  stack?: string;
  place?: SourcePosition;
  cause?: WireError;
}

/** The limit of nested causes that are carried. */
const MAX_CAUSE_DEPTH = 5;

export function toWire(thrown: unknown, depth = 0): WireError {
  if (!isErrorLike(thrown))
    return { name: "", message: `${Bun.inspect(thrown)} was thrown, which is no Error` };
  const { name, message, stack } = thrown;
  const wire: WireError = { name: name ?? "", message, stack, place: placeOf(thrown) };
  if (thrown.cause !== undefined && depth < MAX_CAUSE_DEPTH) wire.cause = toWire(thrown.cause, depth + 1);
  if (!(thrown instanceof SyscallError)) return wire;
  const { cause: _, ...detail } = detailOf(thrown);
  return { ...wire, code: thrown.code, detail };
}

/** The thrown error as a SyscallError: DRIVER with the plugin's name if it was another error. */
export function fromWire(wire: WireError, plugin: string): SyscallError {
  if (wire.code === undefined) {
    return new SyscallError("DRIVER", `Plugin ${plugin}: ${described(wire)}`, { cause: plainError(wire) });
  }
  const { code, message, detail, cause } = wire;
  return new SyscallError(code, message, { ...detail, cause: cause && plainError(cause) });
}

/** The error on one line, with file and line if they are known. */
function described(wire: WireError): string {
  return wire.place ? `${errorText(wire)} (${placeText(wire.place)})` : errorText(wire);
}

/** The error on one line, without its position. */
export function errorText({ name, message }: WireError): string {
  return name && name !== "Error" && name !== "SyscallError" ? `${name}: ${message}` : message;
}

export function placeText({ file, line, column }: SourcePosition): string {
  return [file, line, column].filter((part) => part !== undefined).join(":");
}

function plainError(wire: WireError): Error {
  const cause = wire.cause && plainError(wire.cause);
  const error = new Error(wire.message, cause && { cause });
  if (wire.name) error.name = wire.name;
  if (wire.stack !== undefined) error.stack = wire.stack;
  return error;
}

/** Bun's BuildMessage and ResolveMessage are no Errors, but have a position. */
interface ErrorLike {
  name?: string;
  message: string;
  stack?: string;
  cause?: unknown;
  position?: { file: string; line: number; column: number } | null;
  errors?: unknown[];
}

function isErrorLike(thrown: unknown): thrown is ErrorLike {
  return (
    typeof thrown === "object" && thrown !== null && "message" in thrown && typeof thrown.message === "string"
  );
}

function placeOf(error: ErrorLike): SourcePosition | undefined {
  const first = error.errors?.find(isErrorLike);
  if (first) return placeOf(first);
  if (error.position)
    return { file: error.position.file, line: error.position.line, column: error.position.column };
  for (const line of error.stack?.split("\n") ?? []) {
    const frame = /\(?(?:file:\/\/)?(\/[^()]+?):(\d+):(\d+)\)?$/.exec(line);
    if (!frame?.[1] || frame[1].startsWith("/$bunfs/") || frame[1].startsWith(import.meta.dir)) continue;
    // The binary's source map names Rnix's own files as if `src` were the root.
    if (!existsSync(frame[1])) continue;
    return { file: frame[1], line: Number(frame[2]), column: Number(frame[3]) };
  }
  return undefined;
}
