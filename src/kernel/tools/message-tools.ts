import type { InboxEntry } from "../../store/runs/schema.ts";
import { READ_MESSAGES, SEND_MESSAGE } from "../devices/messages.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { AgentInfo } from "../types.ts";

/*
 * When a process is shown the message tools. Most runs have no other process to write to, and every request would
 * carry the two. A process that is not shown them may use them all the same.
 */

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

/** Whether a new process is shown them from the start. `head`: that of its prompt. */
export function startsWithMessages({ ppid, spec, permissions }: Process, head: string): boolean {
  if (ppid !== 0 || listsMessageTools(spec.agent)) return true;
  const [own = []] = permissions.record().allow;
  return namesMessageTools(spec.intent, head, ...own);
}

/**
 * Whether there is another process to write to by now: a child that lives, or the sender of what it is told. A child
 * that has ended takes no answer; the operator, PID 0, has no inbox.
 */
export function hasCorrespondent(
  { children, childResults }: Process,
  told: readonly InboxEntry[],
  table: ProcessTable,
): boolean {
  const ended = (uuid: string | null): boolean => childResults.some((child) => child.uuid === uuid);
  return (
    children.some((pid) => table.find(pid)?.state === "running") ||
    told.some((entry) => entry.kind === "message" && entry.from_pid !== 0 && !ended(entry.from_uuid))
  );
}
