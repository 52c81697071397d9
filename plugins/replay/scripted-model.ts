/** A model device that answers from a script. */

import { isAbsolute, resolve } from "node:path";
import {
  type History,
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  type OpenContext,
  type RunInfo,
  SyscallError,
} from "rnix/plugin";
import { z } from "zod";
import type { Model } from "../_model/model-file.ts";
import { mismatchOf } from "./condition.ts";
import { checkConversation, checkResults, noOption } from "./divergence.ts";
import { normalize, replaceFolder } from "./normalize.ts";
import { recordedRun, scriptOf } from "./recording.ts";
import {
  type Branch,
  COMPARE,
  type Compare,
  type Option,
  type Response,
  type Script,
  type ScriptItem,
} from "./script.ts";
import { readScript } from "./script-file.ts";

/** The list in the run's own store of the options it has taken at branches. */
const TAKEN = "taken";
const MAX_TAKEN = 10_000;
const Taken = z.object({ n: z.number(), way: z.number() });

/**
 * Answers with the script's next response. The number of answers in the request decides which one that is, so that a
 * resumed run continues at its place.
 */
export class ScriptedModel implements Model {
  readonly #context: OpenContext;
  readonly #scripts = new Map<string, Promise<SubScript>>();
  /** The options taken, by the number of the branch; read from the run's store at the first use. */
  #options: Promise<Map<number, number>> | undefined;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  async answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    const { script } = await this.#script(request.model, signal);
    // The kernel then compacts without a model.
    if (request.turn === null) {
      const message = `${script.name} holds the answers of a run's steps, but no summary of them`;
      throw new SyscallError("INVALID", message, { retryable: false });
    }
    const turn = turnOf(request);
    const rule = {
      script,
      compare: this.#compare(request.model, script),
      normalize: this.#normalize(script),
    };
    const { current, previous } = await cursorAt(script.responses, turn, async (branch, at) => {
      if (at.turn === turn) return this.#choose(branch, at, request, rule);
      return this.#chosenBefore(branch, at, request, rule);
    });
    checkResults(previous, request, turn, rule);
    if (current === undefined) {
      const message = `${script.name} has ${turn} responses and was asked for turn ${turn + 1}. Add a response, or end the run before it`;
      throw new SyscallError("INVALID", message, { retryable: false });
    }
    checkConversation(current, request, turn, rule);
    return answerOf(current, turn, request, this.#withCurrentFolders(script));
  }

  async stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    return events(await this.answer(request, signal));
  }

  #script(model: string, signal: AbortSignal): Promise<SubScript> {
    const known = this.#scripts.get(model);
    if (known) return known;
    const script = this.#read(model, signal).then((whole) => subScript(this.#context, whole));
    this.#scripts.set(model, script);
    // A failure is not kept: the next attempt may succeed.
    script.catch(() => this.#scripts.delete(model));
    return script;
  }

  async #read(model: string, signal: AbortSignal): Promise<SubScript> {
    const { cwd, history, process } = this.#context;
    const [, uuid] = RECORDED.exec(model) ?? [];
    if (uuid === undefined)
      return subScriptFile(await readScript(isAbsolute(model) ? model : resolve(cwd, model), signal));
    if (history === undefined) throw new SyscallError("UNAVAILABLE", "the recorded runs can't be read here");
    return recordedSubScript(history, await recordedRun(history, uuid.toLowerCase(), process.uuid));
  }

  #compare(model: string, script: Script): Compare {
    const [, , said] = RECORDED.exec(model) ?? [];
    return COMPARE.find((one) => one === said) ?? script.compare ?? "usual";
  }

  #normalize({ recorded }: Script) {
    const { cwd, project } = this.#context;
    return normalize({ cwd, project: project.dir }, recorded);
  }

  /** Chooses by the conversation, and records the choice: later the conversation may be compacted. */
  async #choose(branch: Branch, at: { n: number }, request: LLMRequest, rule: Rule): Promise<Option> {
    const index = chosen(branch, request, rule);
    const option = branch.one_of[index];
    if (option === undefined) throw noOption(branch, request, turnOf(request), rule);
    (await this.#recorded()).set(at.n, index);
    await this.#context.store?.append("run", TAKEN, { n: at.n, way: index });
    return option;
  }

  /** The option taken earlier. Without a record of it, the conversation up to there decides again. */
  async #chosenBefore(
    branch: Branch,
    { n, turn }: { n: number; turn: number },
    request: LLMRequest,
    rule: Rule,
  ): Promise<Option> {
    const recorded = (await this.#recorded()).get(n);
    const messages = upToAnswer(request, turn);
    const index = recorded ?? (messages && chosen(branch, { ...request, messages }, rule));
    const option = branch.one_of[index ?? -1];
    if (option === undefined) {
      const message = `${rule.script.name}: the option taken before turn ${turn + 1} is no longer known, because the conversation was compacted`;
      throw new SyscallError("INVALID", message, { retryable: false });
    }
    return option;
  }

  #recorded(): Promise<Map<number, number>> {
    this.#options ??= this.#readRecorded();
    return this.#options;
  }

  /** The last record of a branch counts: a fork also has the records of the run it was made from. */
  async #readRecorded(): Promise<Map<number, number>> {
    const lines = (await this.#context.store?.lines("run", TAKEN, 0, MAX_TAKEN)) ?? [];
    return new Map(lines.flatMap((line) => Taken.safeParse(line).data ?? []).map(({ n, way }) => [n, way]));
  }

  /** Replaces the recorded run's folders in a call's input by the current ones. */
  #withCurrentFolders({ recorded }: Script): (value: unknown) => unknown {
    const { cwd, project } = this.#context;
    const moves = [
      [recorded?.cwd, cwd],
      [recorded?.project, project.dir],
    ] as const;
    return (value) => moved(value, moves);
  }
}

type Rule = Parameters<typeof noOption>[3];

/** A run's UUID or its beginning, and how results are compared. */
const RECORDED = /^([0-9a-f]{4,8}(?:-[0-9a-f-]{0,27})?)(?::(exact|usual|state))?$/i;

function turnOf({ turn, messages }: LLMRequest): number {
  return turn ?? messages.filter(({ role }) => role === "assistant").length;
}

function chosen({ one_of }: Branch, request: LLMRequest, { normalize }: Rule): number {
  return one_of.findIndex(({ when }) => when === undefined || mismatchOf(when, request, normalize) === null);
}

/** The messages before answer `turn`; undefined when compaction has removed some of them. */
function upToAnswer(request: LLMRequest, turn: number): LLMRequest["messages"] | undefined {
  const answers = request.messages.flatMap(({ role }, at) => (role === "assistant" ? [at] : []));
  return answers.length === turnOf(request) ? request.messages.slice(0, answers[turn]) : undefined;
}

function moved(value: unknown, moves: readonly (readonly [string | undefined, string])[]): unknown {
  if (typeof value === "string") {
    return moves.reduce(
      (text, [from, to]) => (from === undefined || from === to ? text : replaceFolder(text, from, to)),
      value,
    );
  }
  if (Array.isArray(value)) return value.map((one) => moved(one, moves));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, moved(one, moves)]));
}

function answerOf(
  response: Response,
  turn: number,
  request: LLMRequest,
  convert: (value: unknown) => unknown,
): LLMAnswer {
  const content = response.text ?? "";
  const calls = (response.tool_calls ?? []).map(({ expect: _, input, ...call }, n) => ({
    id: `call_${turn + 1}_${n + 1}`,
    ...call,
    input: Object.fromEntries(Object.entries(input).map(([key, value]) => [key, convert(value)])),
  }));
  const usage = {
    input_tokens: estimate(
      request.system_prompt + request.messages.map((message) => message.content).join(""),
    ),
    output_tokens: estimate(content + JSON.stringify(calls)),
    cached_tokens: 0,
    ...response.usage,
  };
  return {
    content,
    ...(response.reasoning !== undefined && { reasoning: response.reasoning }),
    tool_calls: calls,
    stop_reason: response.stop_reason ?? (calls.length > 0 ? "tool_calls" : "end_turn"),
    ...(response.stop_word !== undefined && { stop_word: response.stop_word }),
    usage,
    tokens_used: usage.input_tokens + usage.output_tokens,
  };
}

async function* events(answer: LLMAnswer): AsyncGenerator<LLMEvent> {
  for (const text of pieces(answer.reasoning ?? "")) yield { type: "reasoning_delta", text };
  for (const text of pieces(answer.content)) yield { type: "text_delta", text };
  for (const call of answer.tool_calls) yield { type: "tool_call", call };
  yield { type: "usage", usage: answer.usage };
  const { stop_reason: reason, stop_word: word } = answer;
  yield { type: "stop", reason, ...(word !== undefined && { word }) };
}

const PIECES = 4;

/** By code points, so that no piece ends within a character. */
function pieces(text: string): string[] {
  const points = [...text];
  const size = Math.max(1, Math.ceil(points.length / PIECES));
  const count = Math.ceil(points.length / size);
  return Array.from({ length: count }, (_, n) => points.slice(n * size, (n + 1) * size).join(""));
}

/** Tokens where the script gives no number: about four characters each, the same on every machine. */
function estimate(text: string): number {
  return Math.ceil(text.length / 4);
}

/** Chooses an option of the `n`-th branch that the run reaches, before answer `turn`. */
type Choose = (branch: Branch, at: { n: number; turn: number }) => Promise<Option>;

interface Cursor {
  /** The answer to give now; undefined at the end of the script. */
  current: Response | undefined;
  /** The answer before it. */
  previous: Response | undefined;
}

/** The position in the script after `turn` answers. */
async function cursorAt(responses: readonly ScriptItem[], turn: number, choose: Choose): Promise<Cursor> {
  let given = 0;
  let branches = 0;
  let previous: Response | undefined;
  // The rest of each nested list on the way to this position, the innermost last.
  const open: Iterator<ScriptItem>[] = [responses.values()];
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    const { done, value: item } = inner.next();
    if (done) open.pop();
    else if ("one_of" in item) {
      const option = await choose(item, { n: branches++, turn: given });
      open.push(itemsOf(option).values());
    } else if (given === turn) return { current: item, previous };
    else {
      previous = item;
      given++;
    }
  }
  return { current: undefined, previous };
}

function itemsOf({ when: _, responses, ...own }: Option): ScriptItem[] {
  return responses ?? [own];
}

/** The script of one run: the whole one, or that of an agent that the run spawns. */
interface SubScript {
  script: Script;
  children(): Promise<ChildScript[]>;
}

interface ChildScript {
  agent: string;
  intent: string;
  script(): Promise<SubScript>;
}

/** The script of this process, within the script that it shares with the run it was spawned by. */
async function subScript(context: OpenContext, whole: SubScript): Promise<SubScript> {
  const { history, process } = context;
  if (history === undefined || process.depth === 0) return whole;
  const self = await runOf(history, process.uuid);
  return self === undefined ? whole : scriptOfRun(history, self, whole);
}

async function scriptOfRun(history: History, self: RunInfo, whole: SubScript): Promise<SubScript> {
  const parent = self.parent_uuid === null ? undefined : await runOf(history, self.parent_uuid);
  // The parent does not play this script.
  if (parent === undefined || parent.provider !== self.provider || parent.model !== self.model) return whole;
  const above = await scriptOfRun(history, parent, whole);
  const children = await above.children();
  // Without `children` in a hand-written script, every child plays it from the beginning.
  if (children.length === 0 && above.script.children === undefined) return above;
  const isAlike = (one: { agent: string; intent: string }): boolean =>
    one.agent === self.agent && one.intent === self.intent;
  const siblings = await history.runs({ parent: parent.uuid, limit: 1000 });
  const before = siblings.filter((one) => isAlike(one) && one.uuid < self.uuid).length;
  const child = children.filter(isAlike)[before];
  if (child === undefined) throw noScript(above.script, self, before, children);
  return child.script();
}

function subScriptFile(script: Script): SubScript {
  return {
    script,
    children: async () =>
      (script.children ?? []).map(({ agent, intent, responses, children = [] }) => ({
        agent,
        intent,
        script: async () => subScriptFile({ ...script, agent, intent, responses, children }),
      })),
  };
}

async function recordedSubScript(history: History, run: RunInfo): Promise<SubScript> {
  return {
    // A record is complete: without children it has none.
    script: { ...(await scriptOf(history, run)), children: [] },
    async children() {
      const runs = await history.runs({ parent: run.uuid, limit: 1000 });
      return runs
        .filter(({ kind }) => kind === "agent")
        .map((child) => ({
          agent: child.agent,
          intent: child.intent,
          script: () => recordedSubScript(history, child),
        }));
    },
  };
}

async function runOf(history: History, uuid: string): Promise<RunInfo | undefined> {
  return (await history.runs({ uuid, limit: 1 }))[0];
}

function noScript(
  script: Script,
  { agent, intent }: RunInfo,
  before: number,
  children: ChildScript[],
): SyscallError {
  const known = children.map((one) => `  ${one.agent}: ${JSON.stringify(one.intent)}`).join("\n");
  const nth = before === 0 ? "" : ` (number ${before + 1} of it)`;
  const message = `${script.name} diverges: the run has spawned an agent that has no script${nth}\nexpected one of\n${known || "  none"}\nactual\n  ${agent}: ${JSON.stringify(intent)}`;
  return new SyscallError("INVALID", message, { retryable: false });
}
