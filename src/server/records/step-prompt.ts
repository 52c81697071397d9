/** The prompt of a recorded step. */

import { recordedFirst } from "../../kernel/conversation/first-message.ts";
import { conversationOf } from "../../kernel/conversation/rebuild-history.ts";
import { modelSchema } from "../../kernel/tools/model-schema.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { type Message, SyscallError } from "../../plugin/index.ts";
import type { AppliedCompaction, StepPrompt } from "../../protocol/methods.ts";
import type { Compaction, StepRecord } from "../../store/runs/schema.ts";
import { allSteps, type Run } from "./recorded-run.ts";

type Prompt = Omit<StepPrompt, "pid" | "uuid">;

/** The messages that a step adds before its answer. */
interface Asked extends Pick<StepRecord, "step" | "origin_uuid" | "tools_offered"> {
  compactions: Compaction[];
  messages: Message[];
}

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
  const { uuid } = run.info;
  // The journal is read first: a step that is recorded meanwhile is in the steps then.
  const journal = await run.records.journal(uuid);
  const steps: StepRecord[] = [];
  for await (const step of allSteps(run.records, uuid)) if (step.step <= number) steps.push(step);
  const recorded = steps.at(-1)?.step === number ? steps.pop() : undefined;
  requireWhole(uuid, steps, number, recorded !== undefined);
  const asked = recorded ? askedIn(recorded) : openStep(journal.entries, number, run, await metaOf(run));
  if (!asked) return undefined;
  const made = [...steps, asked];
  return {
    step: number,
    ...(await headOf(asked, run, find)),
    messages: [...conversationOf(steps, asked.compactions), ...asked.messages],
    compactions: made.flatMap(({ step, compactions = [] }) => compactions.map((one) => applied(step, one))),
  };
}

/** The messages of a finished step, without its answer, which is the last. */
function askedIn({ step, origin_uuid, tools_offered, compactions = [], messages }: StepRecord): Asked {
  return { step, origin_uuid, tools_offered, compactions, messages: messages.slice(0, -1) };
}

type Meta = NonNullable<Awaited<ReturnType<Run["records"]["meta"]>>>;

/** The same of a step whose answer is recorded, but not its calls. */
function openStep(
  journal: Awaited<ReturnType<Run["records"]["journal"]>>["entries"],
  number: number,
  { info }: Run,
  { spawned }: Meta,
): Asked | undefined {
  const answer = journal.find((entry) => entry.t === "answer" && entry.step === number);
  if (answer?.t !== "answer") return undefined;
  const compactions = journal.flatMap((entry) => (entry.t === "compact" ? [entry.compaction] : []));
  const first = number === 1 ? recordedFirst(info, spawned) : undefined;
  return { step: number, compactions, messages: answer.messages ?? (first ? [first] : []) };
}

/** Model, system prompt and tools of the request. */
async function headOf(
  { step, origin_uuid, tools_offered }: Asked,
  run: Run,
  find: (uuid: string) => Promise<Run | undefined>,
): Promise<Omit<Prompt, "step" | "messages" | "compactions">> {
  const maker = origin_uuid === undefined ? run : await find(origin_uuid);
  if (!maker) throw originGone(step, origin_uuid ?? "");
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

/** Steps count from 1; a gap is a line that can't be read. */
function requireWhole(
  uuid: string,
  before: readonly StepRecord[],
  number: number,
  isRecorded: boolean,
): void {
  const gap = before.findIndex(({ step }, index) => step !== index + 1);
  const lost = gap >= 0 ? gap + 1 : before.length + 1;
  if (gap < 0 && (!isRecorded || before.length === number - 1)) return;
  throw new SyscallError(
    "INVALID",
    `Step ${lost} of run ${uuid} can't be read, so the prompt of step ${number} is not known. \`rnix steps ${uuid}\` says which line is damaged.`,
  );
}

function originGone(step: number, uuid: string): SyscallError {
  return new SyscallError(
    "NOT_FOUND",
    `Step ${step} was made by run ${uuid}, whose record is gone: its prompt is not known.`,
  );
}
