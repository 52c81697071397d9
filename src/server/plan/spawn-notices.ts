/** What a person is notified of when a run starts, and why a spawn is refused. */

import type { Agent } from "../../config/agents/agents.ts";
import type { Project } from "../../config/project/project.ts";
import { OutputSchema } from "../../kernel/loop/output-schema.ts";
import { hasCommand } from "../../lib/has-command.ts";
import { keyOf, namesWith } from "../../options/option-list.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

/** Parts of an untrusted project's agent that are left out, except those that flags replace. */
export function withheldOf({ name, source, withheld, allowedTools }: Agent, request: PlacedSpawn): string[] {
  const given = namesWith({ agent: true }).filter((name) => request[name] !== undefined);
  const replaced = new Set<string>(given.map((name) => keyOf(name)));
  if (request.allow) replaced.add("allowed_tools");
  return withheld
    .filter(({ key }) => !replaced.has(key))
    .map(({ key, says }) => {
      const instead = key === "allowed_tools" ? ` (it may use ${allowedTools.join(", ") || "none"})` : "";
      return `${says} of the agent ${name} in ${source}${instead}`;
    });
}

/** One notice about all parts that need trust. */
export function untrustedNotice(parts: readonly string[], ofBase: boolean): string[] {
  if (parts.length === 0) return [];
  const what = parts.length === 1 ? "it" : "them";
  const how = ofBase
    ? `--trust trusts ${what} for this run, as the base has ${what}`
    : `\`rnix trust\` shows and trusts ${what}`;
  return [`not trusted, so left out: ${parts.join("; ")}. ${how}.`];
}

export function readOnlyNotice({ dir, dataDir, unwritableDataDir }: Project): string[] {
  if (unwritableDataDir === undefined) return [];
  return [`${dir} can't be written: the record of the run is in ${dataDir}. --record DIR keeps it elsewhere`];
}

/** `isInside`: the request comes from the shell of a run. */
export function refuseRequest(request: PlacedSpawn, { isInside }: { isInside: boolean }): void {
  if (isInside && request.trust) throw trustFromInside();
  if (isInside && request.resume_on_restart) {
    const message = "--resume-on-restart is refused inside a run: a child resumes when its parent does.";
    throw new SyscallError("INVALID", message);
  }
  if (isInside && request.unasked) {
    const message = "A run can't allow calls without a question: only the user can.";
    throw new SyscallError("PERMISSION", message);
  }
  if (request.chat) refuseInChat(request, isInside);
}

/** A check that runs nothing would pass. `env`: the environment of the run. */
export function requireCommands(checks: readonly string[], env: Readonly<Record<string, string>>): void {
  const empty = checks.find((check) => !hasCommand(check, env));
  if (empty === undefined) return;
  const why = hasCommand(empty)
    ? "its variables are empty in the environment of the run"
    : "it runs nothing whose result is known";
  const message = `check: expected a command, got ${JSON.stringify(empty)}: ${why}, so it would pass`;
  throw new SyscallError("INVALID", message);
}

export function trustFromInside(): SyscallError {
  const message =
    "--trust is for a person: it is refused inside a run. What the run may use was decided when it was spawned.";
  return new SyscallError("PERMISSION", message);
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
