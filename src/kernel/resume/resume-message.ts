import { SyscallError } from "../../plugin/index.ts";
import { hasEnded, type SavedRun } from "./saved-run.ts";

export type ResumeNews = { kind: "input"; text: string } | { kind: "notice"; source: string; text: string };

/**
 * What its model is told first. Where it has had its last word somebody must say something, or there is nothing
 * for it to answer.
 */
export function resumeMessage(saved: SavedRun, input: string | undefined): ResumeNews | undefined {
  const { info, history, fork } = saved;
  if (input !== undefined) return { kind: "input", text: input };
  if (fork ? !fork.ended : !hasEnded(info)) {
    if (isAnswered(saved)) throw needsInput(info.uuid, history.step);
    return undefined;
  }
  if (info.exit_reason === "completed") {
    throw new SyscallError(
      "INVALID",
      `Run ${info.uuid} has completed: give it something to go on with, such as rnix resume ${info.uuid}${fork ? (fork.adopted ? " --adopt" : " --fork") : ""} "and now …".`,
    );
  }
  if (history.openStep || history.paused || history.messages.at(-1)?.role !== "assistant") return undefined;
  const why = info.error?.message ?? `It had ended: ${info.exit_reason}.`;
  return { kind: "notice", source: "rnix", text: `This run had ended and goes on now. ${why}` };
}

/** Its model has nothing to answer, and its last word is not its end. */
function isAnswered({ fork, history, unread, progress }: SavedRun): boolean {
  if (fork) return fork.answered;
  const said = !history.openStep && !history.paused && history.messages.at(-1)?.role === "assistant";
  return said && unread.length === 0 && progress.answered === null;
}

function needsInput(uuid: string, step: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `In step ${step} of run ${uuid} its model had its last word: give it something to go on with, such as "and now …".`,
  );
}
