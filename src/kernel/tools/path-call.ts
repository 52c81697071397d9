/** Calls of a path without a model. */

import { type Data, SyscallError } from "../../plugin/index.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import { exchange } from "./device-call.ts";

const READ_LENGTH = 256 * 1024;
/** Maximum bytes of an answer: it is sent as one line of the protocol. */
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * Opens a path, writes the input if there is one, reads the answer and closes. The process's rights must cover the path
 * itself. Text stays text; keys are redacted.
 */
export function callPath(
  { files }: { files: FileSystem },
  proc: Process,
  path: string,
  input: string | undefined,
  until: AbortSignal,
): Promise<{ result: Data; truncated: boolean }> {
  const ms = proc.spec.opts.limits.tool_timeout;
  const late = `${path} did not answer within ${ms} ms.`;
  return exchange(files, proc, { path, by: { kind: "process" }, input, ms, late }, until, (fd, signal) =>
    readAll(files, proc, fd, signal),
  );
}

async function readAll(
  files: FileSystem,
  proc: Process,
  fd: number,
  signal: AbortSignal,
): Promise<{ result: Data; truncated: boolean }> {
  const texts: string[] = [];
  const chunks: Uint8Array[] = [];
  const redacted = proc.secrets.byteStream();
  let length = 0;
  let truncated = false;
  while (!truncated) {
    const data = await files.read(proc, fd, READ_LENGTH, signal);
    if (data.length === 0) break;
    if (typeof data === "string") texts.push(data);
    else chunks.push(redacted.push(data));
    if (texts.length > 0 && chunks.length > 0) throw mixed(fd);
    length += data.length;
    truncated = length > MAX_BYTES;
  }
  if (texts.length > 0) return { result: proc.secrets.hide(texts.join("")), truncated };
  return { result: Buffer.concat([...chunks, redacted.end()]), truncated };
}

function mixed(fd: number): SyscallError {
  return new SyscallError(
    "DRIVER",
    `The driver of FD ${fd} answered with text and with bytes. Expected one of them.`,
  );
}
