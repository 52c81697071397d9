import { isAbsolute, resolve } from "node:path";
import { type LLMAnswer, type LLMEvent, type LLMRequest, type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";
import type { Model } from "../_model/model-file.ts";
import { missOf } from "./condition.ts";
import { cursorAt } from "./cursor.ts";
import { checkConversation, checkResults, noWay } from "./divergence.ts";
import { normalize, replaceFolder } from "./normalize.ts";
import { recordedRun } from "./recording.ts";
import { type Branch, COMPARE, type Compare, type Response, type Script, type Way } from "./script.ts";
import { readScript } from "./script-file.ts";
import { recordedSubScript, type SubScript, subScript, subScriptFile } from "./sub-scripts.ts";

/** Of the run's own store: which ways it has taken where its script branches. */
const TAKEN = "taken";
const MOST_TAKEN = 10_000;
const Taken = z.object({ n: z.number(), way: z.number() });

/**
 * Answers with the script's next response. Which one that is depends on the request alone, on how many
 * answers the run has had, so that a resumed run goes on where it was.
 */
export class ScriptedModel implements Model {
  readonly #context: OpenContext;
  readonly #parts = new Map<string, Promise<SubScript>>();
  /** By the number of the branch; read from the run's store when it is first asked for. */
  #ways: Promise<Map<number, number>> | undefined;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  async answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    const { script } = await this.#part(request.model, signal);
    if (request.turn === null) throw noSummary(script);
    const turn = turnOf(request);
    const rule = { script, compare: this.#compare(request.model, script), usual: this.#usual(script) };
    const { now, before } = await cursorAt(script.responses, turn, async (branch, at) => {
      if (at.turn === turn) return this.#take(branch, at, request, rule);
      return this.#taken(branch, at, request, rule);
    });
    checkResults(before, request, turn, rule);
    if (now === undefined) throw ranOut(script, turn);
    checkConversation(now, request, turn, rule);
    return answerOf(now, turn, request, this.#today(script));
  }

  async stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    return events(await this.answer(request, signal));
  }

  #part(model: string, signal: AbortSignal): Promise<SubScript> {
    const known = this.#parts.get(model);
    if (known) return known;
    const part = this.#read(model, signal).then((whole) => subScript(this.#context, whole));
    this.#parts.set(model, part);
    // What was not there may be there when it is asked for again.
    part.catch(() => this.#parts.delete(model));
    return part;
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

  #usual({ recorded }: Script) {
    const { cwd, project } = this.#context;
    return normalize({ cwd, project: project.dir }, recorded);
  }

  /** Chosen by the conversation as it is, and kept: later it may have been compacted. */
  async #take(branch: Branch, at: { n: number }, request: LLMRequest, rule: Rule): Promise<Way> {
    const index = chosen(branch, request, rule);
    const way = branch.one_of[index];
    if (way === undefined) throw noWay(branch, request, turnOf(request), rule);
    (await this.#kept()).set(at.n, index);
    await this.#context.store?.append("run", TAKEN, { n: at.n, way: index });
    return way;
  }

  /** The way taken before. Where nothing is kept of it, the conversation up to there says which. */
  async #taken(
    branch: Branch,
    { n, turn }: { n: number; turn: number },
    request: LLMRequest,
    rule: Rule,
  ): Promise<Way> {
    const kept = (await this.#kept()).get(n);
    const messages = upToAnswer(request, turn);
    const index = kept ?? (messages && chosen(branch, { ...request, messages }, rule));
    const way = branch.one_of[index ?? -1];
    if (way === undefined) throw forgotten(rule.script, turn);
    return way;
  }

  #kept(): Promise<Map<number, number>> {
    this.#ways ??= this.#readKept();
    return this.#ways;
  }

  /** The last word on each branch counts: a fork has those of the run that it comes from. */
  async #readKept(): Promise<Map<number, number>> {
    const lines = (await this.#context.store?.lines("run", TAKEN, 0, MOST_TAKEN)) ?? [];
    return new Map(lines.flatMap((line) => Taken.safeParse(line).data ?? []).map(({ n, way }) => [n, way]));
  }

  /** A call's input as it is today: the recorded run's folders have been others. */
  #today({ recorded }: Script): (value: unknown) => unknown {
    const { cwd, project } = this.#context;
    const moves = [
      [recorded?.cwd, cwd],
      [recorded?.project, project.dir],
    ] as const;
    return (value) => moved(value, moves);
  }
}

type Rule = Parameters<typeof noWay>[3];

/** A run's UUID or the beginning of it, and how its results are compared. */
const RECORDED = /^([0-9a-f]{4,8}(?:-[0-9a-f-]{0,27})?)(?::(exact|usual|state))?$/i;

function turnOf({ turn, messages }: LLMRequest): number {
  return turn ?? messages.filter(({ role }) => role === "assistant").length;
}

function chosen({ one_of }: Branch, request: LLMRequest, { usual }: Rule): number {
  return one_of.findIndex(({ when }) => when === undefined || missOf(when, request, usual) === null);
}

/** The messages before answer `turn`; undefined where compaction has taken some of them. */
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
  today: (value: unknown) => unknown,
): LLMAnswer {
  const content = response.text ?? "";
  const calls = (response.tool_calls ?? []).map(({ expect: _, input, ...call }, n) => ({
    id: `call_${turn + 1}_${n + 1}`,
    ...call,
    input: Object.fromEntries(Object.entries(input).map(([key, value]) => [key, today(value)])),
  }));
  const usage = {
    input_tokens: guess(request.system_prompt + request.messages.map((message) => message.content).join("")),
    output_tokens: guess(content + JSON.stringify(calls)),
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

/** Where the script says no number: about four characters a token, the same on every machine. */
function guess(text: string): number {
  return Math.ceil(text.length / 4);
}

/** The kernel does without the model then. */
function noSummary({ name }: Script): SyscallError {
  return new SyscallError("INVALID", `${name} holds the answers of a run's steps, and no summary of them`, {
    retryable: false,
  });
}

function ranOut({ name }: Script, turn: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `${name} has ${turn} responses and was asked for turn ${turn + 1}. Add a response, or end the run before it`,
    { retryable: false },
  );
}

function forgotten({ name }: Script, turn: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `${name}: which way was taken before turn ${turn + 1} is not known any more: the conversation was compacted since`,
    { retryable: false },
  );
}
