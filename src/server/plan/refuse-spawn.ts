/** Refuses requests for a run that can't be granted, before anything is spent. */

import { OutputSchema } from "../../kernel/loop/output-schema.ts";
import { hasCommand } from "../../lib/has-command.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

/** `isInside`: the request comes from the shell of a run. */
export function refuseRequest(request: PlacedSpawn, { isInside }: { isInside: boolean }): void {
  if (isInside && request.trust) throw trustFromInside();
  if (isInside && request.resume_on_restart) throw restartFromInside();
  if (isInside && request.unasked) throw unaskedFromInside();
  if (request.chat) refuseInChat(request, isInside);
}

/** A check that runs nothing would pass. `env`: the environment of the run. */
export function requireCommands(checks: readonly string[], env: Readonly<Record<string, string>>): void {
  const empty = checks.find((check) => !hasCommand(check, env));
  if (empty === undefined) return;
  const why = hasCommand(empty) ? "its variables are empty in the environment of the run" : "it runs nothing";
  throw new SyscallError(
    "INVALID",
    `check: expected a command, got ${JSON.stringify(empty)}: ${why}, so it would pass`,
  );
}

export function trustFromInside(): SyscallError {
  return new SyscallError(
    "PERMISSION",
    "--trust is for a person: it is refused inside a run. What the run may use was decided when it was spawned.",
  );
}

function unaskedFromInside(): SyscallError {
  return new SyscallError("PERMISSION", "A run can't allow calls without a question: only the user can.");
}

function restartFromInside(): SyscallError {
  return new SyscallError(
    "INVALID",
    "--resume-on-restart is refused inside a run: a child resumes when its parent does.",
  );
}

/** A chat has many answers, and a user who reads them. */
function refuseInChat({ output_schema }: PlacedSpawn, isInside: boolean): void {
  if (output_schema !== undefined) {
    throw new SyscallError("INVALID", "output_schema: a chat has no single answer that could fit it.");
  }
  if (!isInside) return;
  throw new SyscallError("PERMISSION", "A chat is for a user: it is refused inside a run.");
}

/** Fails before anything is spent. The run compiles the schema again. */
export function requireValidSchema(schema: object): void {
  void new OutputSchema(schema);
}
