/** The prompt of a recorded step. */

import { recordedFirst } from "../../kernel/conversation/conversations.ts";
import { type Conversation, converse, rebuildHistory } from "../../kernel/conversation/rebuild-history.ts";
import { modelSchema } from "../../kernel/tools/tool-catalog.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AppliedCompaction, StepPrompt } from "../../protocol/methods.ts";
import type { RunEventOf } from "../../run/events.ts";
import { initialState, reduce } from "../../run/state.ts";
import type { Compaction } from "../../store/runs/schema.ts";
import type { Run } from "./recorded-run.ts";

type Prompt = Omit<StepPrompt, "pid" | "uuid">;

/**
 * Restores the prompt of a step from the records; undefined if no answer of it is recorded. `find` finds the run that
 * made the first steps of a fork: their prompts begin with its head. Fails with INVALID if an earlier step can't be
 * read, and with NOT_FOUND if that run is gone.
 */
export async function promptOfStep(
  run: Run,
  number: number,
  find: (uuid: string) => Promise<Run | undefined>,
): Promise<Prompt | undefined> {
  const { info, records } = run;
  const state = initialState();
  const conversation: Conversation = { messages: [], summary: null };
  const compactions: AppliedCompaction[] = [];
  for await (const event of records.story(info)) {
    if (event.step > number) return undefined;
    if (event.step > state.recorded + 1) {
      const message = `Step ${state.recorded + 1} of run ${info.uuid} can't be read, so the prompt of step ${number} is not known. \`rnix steps ${info.uuid}\` says which line is damaged.`;
      throw new SyscallError("INVALID", message);
    }
    if (event.t === "answer" && event.step === number) {
      const { spawned } = await metaOf(run);
      const { messages } = rebuildHistory(state, conversation, recordedFirst(info, spawned));
      return { step: number, ...(await headOf(event, run, find)), messages, compactions };
    }
    reduce(state, event);
    converse(conversation, event);
    if (event.t === "compact") compactions.push(applied(event.step, event.compaction));
  }
  return undefined;
}

async function headOf(
  { step, origin_uuid, tools_offered }: RunEventOf<"answer">,
  run: Run,
  find: (uuid: string) => Promise<Run | undefined>,
): Promise<Omit<Prompt, "step" | "messages" | "compactions">> {
  const maker = origin_uuid === undefined ? run : await find(origin_uuid);
  if (!maker) {
    const message = `Step ${step} was made by run ${origin_uuid ?? ""}, whose record is gone: its prompt is not known.`;
    throw new SyscallError("NOT_FOUND", message);
  }
  const { system_prompt, tools, spawned } = await metaOf(maker);
  return {
    ...modelIn(maker.info, step),
    effort: maker.info.effort,
    system_prompt,
    tools: tools.slice(0, tools_offered).map((tool) => ({ ...tool, input: modelSchema(tool.input) })),
    output_schema: spawned?.output_schema ?? null,
  };
}

/** A switch in a later step names the model before it. */
function modelIn({ switches, provider, model }: ProcInfo, step: number): Pick<Prompt, "provider" | "model"> {
  return switches.find((one) => one.step > step)?.from ?? { provider, model };
}

type Meta = NonNullable<Awaited<ReturnType<Run["records"]["meta"]>>>;

async function metaOf({ info, records }: Run): Promise<Meta> {
  const meta = await records.meta(info.uuid);
  if (meta) return meta;
  throw new SyscallError("NOT_FOUND", `Run ${info.uuid} has no process-meta.json: its prompt is not known.`);
}

function applied(
  step: number,
  { ts, why, tokens_before, tokens_after, cut, summary }: Compaction,
): AppliedCompaction {
  const replaced = summary?.to ?? 0;
  const summary_by = summary?.by ?? null;
  return { step, ts, why, tokens_before, tokens_after, truncated: cut.length, replaced, summary_by };
}
