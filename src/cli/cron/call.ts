/** Operations of /dev/cron, which the commands of `rnix cron` are clients of. */

import { SyscallError } from "../../plugin/index.ts";
import { type Io, project, refuseInsideRun, type Wire, withWire } from "../io.ts";

/** Makes one operation in the folder's project, and returns its result. Fails as the operation does. */
export async function cronCall<T>(
  io: Io,
  op: string,
  input: Record<string, unknown>,
  cwd: string = io.cwd,
): Promise<T> {
  await refuseInsideRun(io, "cron");
  return withWire(io, (wire) => cronRequest<T>(wire, { ...project(io), cwd }, { op, ...input }));
}

export async function cronRequest<T>(
  wire: Wire,
  where: ReturnType<typeof project>,
  input: Record<string, unknown>,
): Promise<T> {
  // A pre-flight may start programs and servers.
  const made = await wire.request(
    "call",
    { ...where, path: "/dev/cron", input: JSON.stringify(input) },
    { timeoutMs: null },
  );
  if (made.error !== null) throw new SyscallError(made.error_code ?? "DRIVER", made.error);
  if (made.truncated)
    throw new SyscallError("EXHAUSTED", "The answer is too long. Ask for less, with --limit or --since.");
  const result: T = JSON.parse(made.result ?? "null");
  return result;
}
