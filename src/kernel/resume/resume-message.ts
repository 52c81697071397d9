/** The first message for the model of a resumed run. */

import { failedCheck } from "../../lib/check-attempts.ts";
import { SyscallError } from "../../plugin/index.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import { hasEnded, type SavedRun } from "./saved-run.ts";

export type ResumeNews = { kind: "input"; text: string } | { kind: "notice"; source: string; text: string };

/** The first message for the model of a resumed run. Fails with INVALID when the model has nothing to answer. */
export function resumeMessage(saved: SavedRun, input: string | undefined): ResumeNews | undefined {
  const { info, history, fork } = saved;
  if (input !== undefined) return { kind: "input", text: input };
  if (fork ? !fork.ended : !hasEnded(info)) {
    // A chat waits for the user's next message.
    const waits = info.chat && !fork?.adopted;
    if (!waits && isAnswered(saved)) throw needsInput(saved);
    return undefined;
  }
  if (info.exit_reason === "completed") {
    throw new SyscallError(
      "INVALID",
      `Run ${info.uuid} has completed. Add a message: rnix resume ${info.uuid}${flagsOf(fork)} "and now …".`,
    );
  }
  if (history.openStep || history.paused || history.messages.at(-1)?.role !== "assistant") return undefined;
  const why = info.error?.message ?? `It had ended: ${info.exit_reason}.`;
  const output = failedCheck(info.checks)?.output?.trim();
  const shown = output ? `\nThe end of the check's output:\n${output}` : "";
  return { kind: "notice", source: "rnix", text: `This run had ended and is resumed now. ${why}${shown}` };
}

/** The model has given its last answer, and the run has not ended by it. */
function isAnswered({ fork, history, unread, units, progress }: SavedRun): boolean {
  if (fork) return fork.answered;
  const said = !history.openStep && !history.paused && history.messages.at(-1)?.role === "assistant";
  const news = recordedUnits(units).some(({ announced }) => !announced);
  return said && !news && unread.length === 0 && progress.answered === null;
}

function needsInput({ info: { uuid }, history: { step }, fork }: SavedRun): SyscallError {
  return new SyscallError(
    "INVALID",
    `Run ${uuid} has nothing left to answer after step ${step}. Add a message: rnix resume ${uuid}${flagsOf(fork)} "and now …".`,
  );
}

/** The flags of the fork that the user has asked for. */
function flagsOf(fork: SavedRun["fork"]): string {
  if (!fork) return "";
  return fork.adopted ? " --adopt" : " --fork";
}
