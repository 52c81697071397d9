/** Finds a recorded run and converts it to a replay script. */

import { type History, type RunInfo, SyscallError } from "rnix/plugin";
import { z } from "zod";
import type { Match } from "./condition.ts";
import { RecordedStep, type Response, type Script } from "./script.ts";

const MAX_LISTED = 5;
const PAGE = 100;
const MAX_CHARS = 64 * 1024 * 1024;

/** The part of a recorded step that is played: the answer, the results of its calls, and the usage. */
const Step = RecordedStep.extend({
  tool_calls: z.array(
    z.object({
      id: z.string(),
      result: z.string().nullable(),
      error: z.string().nullable(),
      error_code: z.string().nullable(),
      state: z.string(),
    }),
  ),
  reasoning: z.string().optional(),
});
type Step = z.infer<typeof Step>;

/** The recorded run with this UUID or beginning of a UUID. It must have ended or be suspended. */
export async function recordedRun(history: History, uuid: string, own: string): Promise<RunInfo> {
  const found = (await history.runs({ uuid, limit: MAX_LISTED + 1 })).filter((run) => run.uuid !== own);
  const [run, other] = found;
  if (run === undefined) {
    throw new SyscallError("NOT_FOUND", `there is no run ${uuid} to replay; \`rnix ps -a\` lists them`, {
      retryable: false,
    });
  }
  if (other !== undefined) {
    const some = found.slice(0, MAX_LISTED).map((one) => one.uuid);
    throw unplayable(
      uuid,
      `it fits several runs: ${some.join(", ")}${found.length > MAX_LISTED ? ", …" : ""}. Write more of it`,
    );
  }
  if (run.ended_at_ms === null)
    throw unplayable(run.uuid, "it is still running: wait for its end, or suspend it");
  if (run.kind !== "agent")
    throw unplayable(run.uuid, "it is not an agent's run: it has no answers of a model");
  return run;
}

/** A recorded run as a script: its answers, and the result of each call as the expected one. */
export async function scriptOf(history: History, run: RunInfo): Promise<Script> {
  const responses: Response[] = [];
  let size = 0;
  for (let after = 0; ; ) {
    const page = await history.steps(run.uuid, after, PAGE);
    for (const one of page) {
      const step = Step.safeParse(one);
      if (!step.success) throw damaged(run, after + 1, step.error);
      if (step.data.step !== after + 1) throw damaged(run, after + 1);
      after = step.data.step;
      responses.push(responseOf(step.data));
      size += JSON.stringify(responses.at(-1)).length;
      if (size > MAX_CHARS) throw unplayable(run.uuid, `it has more than ${MAX_CHARS} characters`);
    }
    if (page.length < PAGE) break;
  }
  return {
    name: `run ${run.uuid}`,
    recorded: { uuid: run.uuid, cwd: run.cwd, project: run.project },
    responses,
  };
}

function responseOf({ messages, tool_calls, usage, reasoning, stop_reason, stop_word }: Step): Response {
  const answer = messages.findLast(({ role }) => role === "assistant");
  const results = new Map(tool_calls.map((call) => [call.id, call]));
  const calls = answer?.tool_calls?.map((call) => {
    const expect = expected(results.get(call.id));
    return expect === undefined ? call : { ...call, expect };
  });
  const stop = { stop_reason, stop_word };
  return { text: answer?.content ?? "", ...(calls && { tool_calls: calls }), usage, reasoning, ...stop };
}

/** The result in the form sent to the model; undefined for an interrupted call, whose result is unknown. */
function expected(call: Step["tool_calls"][number] | undefined): Match | undefined {
  if (call === undefined || !["done", "failed", "denied"].includes(call.state)) return undefined;
  if (call.error === null) return { equals: call.result ?? "" };
  return { equals: `Error ${call.error_code}: ${call.error}${call.result ? `\n${call.result}` : ""}` };
}

function damaged({ uuid }: RunInfo, step: number, cause?: unknown): SyscallError {
  return unplayable(
    uuid,
    `the record of its step ${step} cannot be read; \`rnix steps ${uuid}\` shows the damage`,
    cause,
  );
}

function unplayable(uuid: string, why: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `run ${uuid} can't be replayed: ${why}`, { cause, retryable: false });
}
