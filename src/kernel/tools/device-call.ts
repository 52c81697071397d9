/** Makes one tool call: checks the input, opens the device, writes the input, reads the result and closes the device. */

import type { z } from "zod";
import { withDeadline } from "../../lib/clock.ts";
import { messageOf, withMessage } from "../../lib/error-detail.ts";
import { issueText } from "../../lib/issue-text.ts";
import { taintingDevice } from "../../lib/taint.ts";
import {
  type Data,
  O_RDONLY,
  O_RDWR,
  SyscallError,
  type ToolCall,
  type ToolDef,
} from "../../plugin/index.ts";
import { isLimited } from "../../proxy/host-rules.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { readSchema } from "../../vfs/json-schema.ts";
import type { FileSystem } from "../file-system.ts";
import type { OpenAs } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { hitsText } from "../process/program-policy.ts";
import type { Io } from "../tiers/io.ts";

const READ_LENGTH = 1024 * 1024;
/** Maximum bytes read of one result; a driver with more must offer ranges. */
const MAX_RESULT_BYTES = 16 * 1024 * 1024;

export type CallState = ToolCallRecord["state"];

/**
 * The only way to call a tool: opens the device, writes the input, reads the result and closes. Returns the whole
 * result. Fails with TIMEOUT at the tool's deadline. Keys are redacted in its result and in its error.
 */
export async function callDevice(
  parts: Pick<Io, "files" | "children" | "networks" | "warn" | "openContexts" | "taint">,
  proc: Process,
  call: ToolCall,
  target: ProcessTool,
  path: string,
  until: AbortSignal = proc.work.signal,
): Promise<string> {
  const { files, children, networks, warn, openContexts, taint } = parts;
  const ms = target.tool.timeoutMs ?? proc.spec.opts.limits.tool_timeout;
  const late = `${call.name} did not answer within ${ms} ms and was ended.`;
  const as: OpenAs = {
    kind: "tool",
    tool: call.name,
    callId: call.id,
    deadlineMs: ms,
    subject: subjectOf(target, call),
    input: call.input,
  };
  // A file of /proc takes no input. The tool's rules hold for it.
  const plain = isOfProc(path);
  const by = plain ? { ...as, device: target.entry.path } : as;
  const input = JSON.stringify({ op: target.tool.op ?? target.tool.name, ...call.input });
  /** What was refused to programs, and the limits that they have reached. */
  const notes = async (text: string): Promise<string> => {
    const { limits, network } = proc.spec.opts;
    if (!proc.run.startedPrograms) return "";
    const refused = await openContexts.refusals(proc, text);
    const hosts = isLimited(network) ? networks().takeRefused(proc) : "";
    const hits = children.takeHits(proc.uuid);
    return refused + hosts + (hits === null ? "" : hitsText(hits, text, limits));
  };
  const exchanged = { path, by, input: plain ? undefined : input, ms, late };
  try {
    const result = await exchange(files, proc, exchanged, until, async (fd, signal) =>
      proc.secrets.hide(await readText(files, proc, fd, signal)),
    );
    return result + (await notes(result));
  } catch (thrown) {
    const beside = await notes(messageOf(thrown));
    throw beside && thrown instanceof SyscallError ? withMessage(thrown, thrown.message + beside) : thrown;
  } finally {
    const { origin } = target.tool;
    // An error may hold text of others, too.
    if (origin !== undefined)
      taint(proc, origin, [call.name, as.subject].filter(Boolean).join(" "), taintingDevice(path));
    // The call was made. The end of the process ends what is left of its programs.
    const warned = (thrown: unknown): void => warn(`run ${proc.uuid}`, `programs: ${String(thrown)}`);
    if (proc.run.startedPrograms) await children.endCall(proc.uuid, call.id).catch(warned);
  }
}

interface Exchange {
  path: string;
  by: OpenAs;
  /** Absent: nothing is written. */
  input: string | undefined;
  /** Maximum time of all, and the message of TIMEOUT. */
  ms: number;
  late: string;
}

/** Opens a path, writes the input if there is one, reads with `read` and closes. Redacts keys in errors. */
export async function exchange<T>(
  files: FileSystem,
  proc: Process,
  { path, by, input, ms, late }: Exchange,
  until: AbortSignal,
  read: (fd: number, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const work = async (signal: AbortSignal): Promise<T> => {
    const fd = await files.open(proc, path, input === undefined ? O_RDONLY : O_RDWR, by, signal);
    try {
      if (input !== undefined) await files.write(proc, fd, input, signal);
      return await read(fd, signal);
    } finally {
      // A failing close is in the trace, and does not change the result.
      await files.close(proc, fd).catch(() => undefined);
    }
  };
  try {
    return await withDeadline(proc.clock, until, ms, late, work);
  } catch (thrown) {
    throw proc.secrets.hideIn(thrown);
  }
}

export function stateOf({ code }: SyscallError): CallState {
  if (code === "PERMISSION") return "denied";
  return code === "CANCELLED" ? "cancelled" : "failed";
}

/** The path that a call opens. Fails with INVALID when the input lacks the part that belongs to it. */
export function devicePath(target: ProcessTool, call: ToolCall): string {
  const { path, proc } = target.tool;
  const subject = proc ? subjectOf(target, call) : undefined;
  if (subject !== undefined && isOfProc(subject)) return subject;
  if (path === undefined) return target.entry.path;
  const part = call.input[path];
  if (typeof part !== "string" || part === "")
    throw new SyscallError("INVALID", `${call.name}: expected a non-empty text in "${path}".`);
  return `${target.entry.path}/${part.replace(/^\/+/, "")}`;
}

function isOfProc(path: string): boolean {
  return path.startsWith("/proc/");
}

/** The text of the call that its tool is about. */
export function subjectOf(target: ProcessTool, call: ToolCall): string | undefined {
  const field = target.tool.subject ?? target.tool.path;
  if (field === undefined) return undefined;
  const value = call.input[field];
  return typeof value === "string" ? value : value === undefined ? undefined : JSON.stringify(value);
}

async function readText(files: FileSystem, proc: Process, fd: number, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder();
  const pieces: string[] = [];
  let length = 0;
  for (;;) {
    const data: Data = await files.read(proc, fd, READ_LENGTH, signal);
    if (data.length === 0) break;
    pieces.push(typeof data === "string" ? data : decoder.decode(data, { stream: true }));
    length += data.length;
    if (length >= MAX_RESULT_BYTES) {
      pieces.push(`\n[The result is longer than ${MAX_RESULT_BYTES} bytes and was truncated here.]`);
      break;
    }
  }
  pieces.push(decoder.decode());
  return pieces.join("");
}

/** Compiled schemas by tool; null if zod can't read the schema: such a tool's input is not checked. */
const compiled = new WeakMap<ToolDef, z.ZodType | null>();

/** Checks a call's input against its tool's schema. Fails with INVALID, which lists the wrong fields. */
export function checkToolInput(tool: ToolDef, call: ToolCall): void {
  if (call.invalid) {
    const message = `${tool.name}: the arguments are not a JSON object (${call.invalid.reason}). Send the call again with valid JSON. What came: ${call.invalid.text.slice(0, 500)}`;
    throw new SyscallError("INVALID", message);
  }
  const schema = schemaOf(tool);
  if (schema === null) return;
  const parsed = schema.safeParse(call.input);
  if (parsed.success) return;
  const message = `${tool.name}: the input does not fit the tool's schema. ${issueText(parsed.error, "input")}.`;
  throw new SyscallError("INVALID", message);
}

/** Whether the tool's schema can be checked at all. */
export function isChecked(tool: ToolDef): boolean {
  return schemaOf(tool) !== null;
}

function schemaOf(tool: ToolDef): z.ZodType | null {
  return compiled.getOrInsertComputed(tool, ({ input }) => {
    try {
      return readSchema(input);
    } catch {
      // A schema that zod can't read, or a recursive one, is not the call's fault: the driver checks the input.
      return null;
    }
  });
}
