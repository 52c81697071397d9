/** The steps of a run that a replay plays. */

import type { ProcInfo } from "../../kernel/types.ts";
import type { StepRecord } from "../../store/runs/schema.ts";
import type { Run } from "./recorded-run.ts";

export interface PlayedSteps {
  /** The number of the last step that is played. */
  last: number;
  /** Recorded steps after it: they answer messages, which are not played. */
  left: number;
  /** How the run ended there; the recorded end if every step is played. */
  end: Pick<ProcInfo, "exit_code" | "exit_reason" | "result">;
  /** Whether `end.result` is known. */
  hasResult: boolean;
}

/**
 * A replay ends at the first answer without calls that the run continued after, because a message had come: the
 * follow-up of a resume, or a message of another process. A failed check is no such message: checks run again.
 */
export async function playedSteps({ info, records }: Run): Promise<PlayedSteps> {
  let last: StepRecord | undefined;
  let final: StepRecord | undefined;
  let left = 0;
  for await (const step of records.everyStep(info.uuid)) {
    if (final) left++;
    else if (last && isAnswer(last) && step.inbox !== undefined && !step.after_check)
      [final, left] = [last, 1];
    last = step;
  }
  if (!final) return { last: last?.step ?? 0, left, end: info, hasResult: true };
  const schema = (await records.meta(info.uuid))?.spawned?.output_schema;
  return {
    last: final.step,
    left,
    end: { exit_code: 0, exit_reason: "completed", result: final.raw_response },
    // After a Complete call, or with an output schema, the result is not the answer's text.
    hasResult: final.tool_calls.length === 0 && schema === undefined,
  };
}

function isAnswer({ tool_calls, stop_reason }: StepRecord): boolean {
  if (tool_calls.length === 0) return stop_reason === undefined;
  return tool_calls.some(({ name, state }) => name === "Complete" && state === "done");
}
