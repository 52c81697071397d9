/*
 * Decides when the model of a process is offered the message tools. Most runs have no other process to write to, and each
 * request would carry both tools. A process may call them even if they are not offered.
 */

import type { InboxEntry } from "../../store/runs/schema.ts";
import { READ_MESSAGES, SEND_MESSAGE } from "../../vfs/kernel-paths.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { AgentInfo } from "../types.ts";

const PATHS = [SEND_MESSAGE, READ_MESSAGES];
const NAMED = new RegExp(`\\b(?:SendMessage|ReadMessages)\\b|(?:${PATHS.join("|")})\\b`);

export function isMessageTool(path: string): boolean {
  return PATHS.includes(path);
}

/** Whether an agent's own list, or the list of one of its skills, names them. `*` names none. */
export function listsMessageTools({ allowedTools, skills, deferredSkills }: Lists): boolean {
  const ofSkills = [...skills, ...deferredSkills].flatMap((skill) => skill.allowedTools ?? []);
  return namesMessageTools(...allowedTools, ...ofSkills);
}

type Lists = Pick<AgentInfo, "allowedTools"> &
  Record<"skills" | "deferredSkills", readonly { allowedTools: readonly string[] | null }[]>;

export function namesMessageTools(...texts: readonly string[]): boolean {
  return texts.some((text) => NAMED.test(text));
}

/** Whether a new process is offered them from the start. `head` is its prompt head. */
export function startsWithMessages({ family, spec, permissions }: Process, head: string): boolean {
  if (family.ppid !== 0 || listsMessageTools(spec.agent)) return true;
  const [own = []] = permissions.record().allow;
  return namesMessageTools(spec.intent, head, ...own);
}

/**
 * Whether there is another process to write to: a live child, or the sender of a message in `entries`. A child that
 * has ended reads no answer, and the user, PID 0, has no inbox.
 */
export function hasCorrespondent(
  { family }: Process,
  entries: readonly InboxEntry[],
  table: ProcessTable,
): boolean {
  const ended = (uuid: string | null): boolean => family.results.some((child) => child.uuid === uuid);
  return (
    family.children.some((pid) => table.find(pid)?.state === "running") ||
    entries.some((entry) => entry.kind === "message" && entry.from_pid !== 0 && !ended(entry.from_uuid))
  );
}
