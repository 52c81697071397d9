/** Drafts a compaction: what is truncated and what a summary replaces. */

import { type Message, SyscallError } from "../../plugin/index.ts";
import type { Compaction } from "../../store/runs/schema.ts";
import { estimateMessage, estimateTokens } from "../budget/tokens.ts";
import { RunError } from "../errors/kernel-errors.ts";
import { ModelCall } from "../llm/model-call.ts";
import type { ModelRequest } from "../llm/model-device.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import type { TokenTargets } from "./compactor.ts";
import { firstMessage, shortenText } from "./conversations.ts";
import { applyCompaction } from "./rebuild-history.ts";
import { clipText, digest, instruction, recentFiles, SHARES, summaryMessage } from "./summary.ts";
import { callsByResult, lastAnswers, tailStart } from "./turns.ts";

/** A compaction that is not applied yet. */
interface Draft extends Pick<Compaction, "cut" | "summary"> {
  /** The conversation after it. */
  messages: Message[];
}

interface DraftOptions {
  request: ModelRequest;
  targets: TokenTargets;
  /** Tokens of the request after it. */
  goal: number;
}

/** The results of this many last answers stay whole. */
const KEEP_ANSWERS = 3;
/** Shorter results are not worth cutting, in characters. */
const MIN_CUT_CHARS = 1000;
/** Tokens that each result of the last turn keeps at least. */
const MIN_RESULT_TOKENS = 50;
/** The share of the tokens for messages that the end of the conversation may keep. */
const TAIL_SHARE = 0.4;
/** The minimum tokens for messages, if the prompt head and tools leave less. */
const MIN_MESSAGE_TOKENS = 500;
const SUMMARY_TOKENS = { most: 4000, least: 100 };
const WORDS_PER_TOKEN = 0.7;
/** The share of the window that must be free beside a summary. */
const SPARE_SHARE = 0.02;

/** Drafts a compaction that fits the goal, as far as possible. Returns null if nothing can be shortened. */
export async function draftCompaction(
  parts: Io,
  proc: Process,
  options: DraftOptions,
): Promise<Draft | null> {
  return new Drafting(parts, proc, options).draft();
}

class Drafting {
  readonly #parts: Io;
  readonly #proc: Process;
  readonly #options: DraftOptions;
  /** Messages that are in records. Later ones belong to the current step. */
  readonly #old: readonly Message[];
  readonly #new: readonly Message[];
  /** Estimated tokens that the messages may have. */
  readonly #space: number;
  /** Estimated tokens of the last turn, which the model has not seen yet: by the usual goal, not a demanded one. */
  readonly #unseen: number;

  constructor(parts: Io, proc: Process, options: DraftOptions) {
    this.#parts = parts;
    this.#proc = proc;
    this.#options = options;
    const { messages, model } = options.request;
    const old = messages.length - proc.conversation.unrecorded.length;
    this.#old = messages.slice(0, old);
    this.#new = messages.slice(old);
    const head = proc.model.estimate.of({ ...options.request, messages: [...this.#new] });
    const spaceFor = (tokens: number): number =>
      Math.max(MIN_MESSAGE_TOKENS, (tokens - head) / proc.model.estimate.ratio(model));
    this.#space = spaceFor(options.goal);
    this.#unseen = spaceFor(options.targets.goal) * TAIL_SHARE;
  }

  async draft(): Promise<Draft | null> {
    if (this.#old.length === 0) return null;
    const cut = await this.#cutOldResults();
    const shorter = this.#with({ cut, summary: null });
    if (this.#fits(shorter)) return shorter;
    const more = [...cut, ...(await this.#cutLastResults(cut))];
    const shortest = this.#with({ cut: more, summary: null });
    if (this.#fits(shortest)) return shortest;
    const to = tailStart(applyCompaction(this.#old, { cut: more, summary: null }), this.#space * TAIL_SHARE);
    const summary = to > 1 ? await this.#summary(to, more) : null;
    if (more.length === 0 && summary === null) return null;
    return this.#with({ cut: summary ? more.filter(({ at }) => at >= to) : more, summary });
  }

  #with({ cut, summary }: Pick<Compaction, "cut" | "summary">): Draft {
    return { cut, summary, messages: [...applyCompaction(this.#old, { cut, summary }), ...this.#new] };
  }

  #fits({ messages }: Draft): boolean {
    return this.#proc.model.estimate.of({ ...this.#options.request, messages }) <= this.#options.goal;
  }

  /** Replaces each long result of earlier steps by a line that says how to see it again. */
  async #cutOldResults(): Promise<Compaction["cut"]> {
    const calls = callsByResult(this.#old);
    const recent = lastAnswers(this.#old, KEEP_ANSWERS);
    const cut: Compaction["cut"] = [];
    for (const [at, { content }] of this.#old.slice(0, recent).entries()) {
      const call = calls.get(at);
      // The result of Skill is an instruction that still applies.
      if (!call || content.length <= MIN_CUT_CHARS || call.name === "Skill") continue;
      const what = `${call.name} ${shortenText(JSON.stringify(call.input), 120)}`;
      const where = this.#proc.toolset.shown.get(call.name)?.tool.annotations?.readOnlyHint
        ? "Call it again to see what is there now."
        : await this.#keep(call.name, content);
      cut.push({
        at,
        content: `[Left out to save space: the result of ${what}, ${content.length} characters. ${where}]`,
      });
    }
    return cut;
  }

  /** The last turn always stays: its longest results are clipped. */
  async #cutLastResults(done: Compaction["cut"]): Promise<Compaction["cut"]> {
    const shown = applyCompaction(this.#old, { cut: done, summary: null });
    const from = lastAnswers(shown, 1);
    const results = [...callsByResult(shown)].filter(([at]) => at >= from);
    const tokens = shown.slice(from).reduce((sum, message) => sum + estimateMessage(message), 0);
    if (tokens <= this.#unseen) return [];
    const cut: Compaction["cut"] = [];
    const each = Math.max(MIN_RESULT_TOKENS, this.#unseen / results.length);
    for (const [at, { name }] of results) {
      const content = shown[at]?.content ?? "";
      if (name === "Skill" || estimateTokens(content) <= each) continue;
      cut.push({ at, content: clipText(content, each, await this.#keep(name, content)) });
    }
    return cut;
  }

  async #summary(to: number, cut: Compaction["cut"]): Promise<Compaction["summary"]> {
    const proc = this.#proc;
    const replaced = this.#old.slice(0, to);
    const kept = applyCompaction(this.#old, { cut, summary: null }).slice(to);
    const space = this.#space - kept.reduce((sum, message) => sum + estimateMessage(message), 0);
    const most = Math.min(SUMMARY_TOKENS.most, Math.max(SUMMARY_TOKENS.least, space * SHARES.text));
    const asked = await this.#callModel(cut, most);
    const text = asked ?? digest(replaced, proc.conversation.summary?.text ?? null, most);
    const heard = replaced.findLast(({ role }, at) => role === "user" && at > 0)?.content;
    const first = this.#first();
    const parts = {
      first,
      intent: proc.spec.intent,
      input: proc.spec.opts.input,
      replaced: to,
      text,
      plan: proc.run.plan,
      checklists: this.#parts.watchers.checklistsOf(proc),
      heard: heard ?? proc.conversation.summary?.heard ?? null,
      skills: await this.#skills(),
      files: recentFiles(replaced, kept, proc.toolset.shown, space * SHARES.files),
    };
    const where =
      estimateTokens(first.content) > space * SHARES.first ? await this.#keep("input", first.content) : "";
    const whole = summaryMessage(parts, space, where);
    const names = parts.files.map(({ path }) => ({ path }));
    const message =
      estimateMessage(whole) <= space ? whole : summaryMessage({ ...parts, files: names }, space, where);
    return { to, message, by: asked === null ? "digest" : "model", text, heard: parts.heard };
  }

  /** The original first message, also if a summary has replaced it. */
  #first(): Message {
    const { intent, opts } = this.#proc.spec;
    const [first] = this.#old;
    return { ...first, ...firstMessage(intent, opts.input) };
  }

  async #skills(): Promise<{ name: string; body: string }[]> {
    const { conversation, spec } = this.#proc;
    const given = new Set(spec.agent.skills.map(({ name }) => name));
    const loaded = conversation.skills.filter(({ name }) => !given.has(name));
    return Promise.all(loaded.map(async (skill) => ({ name: skill.name, body: await skill.body() })));
  }

  /**
   * Asks the model for a summary; null if that fails. The request begins like the step's request, so that the
   * provider's prompt cache hits.
   */
  async #callModel(cut: Compaction["cut"], most: number): Promise<string | null> {
    const proc = this.#proc;
    const { request, targets } = this.#options;
    const last = instruction(Math.floor(most * WORDS_PER_TOKEN));
    const longest = targets.window * (1 - SPARE_SHARE) - most * proc.model.estimate.ratio(request.model);
    const found = [request.messages, this.#with({ cut, summary: null }).messages]
      .map((messages) => ({ ...request, messages: [...messages, last] }))
      .find((one) => proc.model.estimate.of(one) <= longest);
    if (!found) return null;
    const { output_schema: _schema, ...asked } = found;
    const call = new ModelCall(this.#parts, proc);
    try {
      const terms = { totalMs: proc.spec.opts.limits.compact_timeout, optional: true } as const;
      const answer = await call.answer({ ...asked, turn: null, tools: this.#toolsFor(asked) }, terms);
      const ends = answer.stop_reason === "end_turn" || answer.stop_reason === "max_tokens";
      return answer.tool_calls.length === 0 && ends ? answer.content : null;
    } catch (thrown) {
      const known = thrown instanceof RunError || thrown instanceof SyscallError;
      if (proc.stopped || !known) throw thrown;
      return null;
    }
  }

  /** Returns no tools for a program that acts as the model: it would call them instead of writing the summary. */
  #toolsFor({ tools }: ModelRequest): ModelRequest["tools"] {
    const { model, spec } = this.#proc;
    return spec.namespace.resolve(model.provider.device).entry.needs.includes("tools") ? undefined : tools;
  }

  /** Stores what is cut where the model's tools can read it: they can't read the step's record. */
  async #keep(name: string, content: string): Promise<string> {
    try {
      const { path } = await this.#proc.record.storeBlob(`${name}.txt`, content);
      return `The whole text is in ${path}`;
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      return `It could not be stored: ${thrown.message}`;
    }
  }
}
