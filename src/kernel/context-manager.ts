/** The syscalls of contexts: the conversation of a process. */

import type { Message } from "../plugin/index.ts";
import type { Compaction } from "../store/runs/schema.ts";
import type { Conversations, CtxID, Prompt } from "./conversation/conversations.ts";
import type { SavedHistory } from "./conversation/rebuild-history.ts";
import { applyCompaction } from "./conversation/rebuild-history.ts";
import type { Debugger } from "./debugger.ts";
import type { Process } from "./process/process.ts";

/**
 * CtxAlloc, CtxRead, CtxWrite, CtxFree as a process makes them: recorded, and with the
 * compound writes of the reasoning loop, which are one CtxWrite each.
 */
export class ContextManager {
  readonly #contexts: Conversations;
  readonly #debug: Debugger;

  constructor(parts: { contexts: Conversations; debug: Debugger }) {
    this.#contexts = parts.contexts;
    this.#debug = parts.debug;
  }

  /** `size` in messages; Infinity for the process's own context, which is bounded by tokens. */
  alloc(proc: Process, size?: number): Promise<CtxID> {
    const args = { size: size === Number.POSITIVE_INFINITY ? "unlimited" : size };
    return this.#debug.call(proc, "CtxAlloc", args, () => this.#contexts.ctxAlloc(size));
  }

  read(proc: Process, cid: CtxID, offset: number, length: number): Promise<string> {
    const read = () => this.#contexts.ctxRead(cid, offset, length);
    return this.#debug.call(proc, "CtxRead", { cid, offset, length }, read, (json) => json.length);
  }

  write(proc: Process, cid: CtxID, offset: number, data: string): Promise<void> {
    return this.#debug.call(proc, "CtxWrite", { cid, offset, size: data.length }, () =>
      this.#contexts.ctxWrite(cid, offset, data),
    );
  }

  free(proc: Process, cid: CtxID): Promise<void> {
    return this.#debug.call(proc, "CtxFree", { cid }, () => this.#contexts.ctxFree(cid));
  }

  /** Appends one message to the process's own context, and to what the next step's record will hold. */
  append(proc: Process, message: Message): Promise<void> {
    return this.#change(proc, { role: message.role }, (conversation) => {
      this.#contexts.appendMessage(conversation.id, message);
      conversation.unrecorded.push(message);
    });
  }

  /**
   * Appends an answer and the results of all its calls, together or not at all. The results are recorded
   * with their calls, so of the messages the next step's record holds only the answer.
   */
  appendTurn(proc: Process, assistant: Message, results: readonly Message[]): Promise<void> {
    return this.#change(proc, { messages: 1 + results.length }, (conversation) => {
      this.#contexts.appendTurn(conversation.id, assistant, results);
      conversation.unrecorded.push(assistant);
    });
  }

  /** Takes out a message again that no model has answered and no record holds. */
  retract(proc: Process, message: Message): Promise<void> {
    return this.#change(proc, { role: message.role, retracted: true }, ({ id, unrecorded }) => {
      this.#contexts.rewrite(id, (messages) => messages.filter((one) => one !== message));
      const at = unrecorded.indexOf(message);
      if (at >= 0) unrecorded.splice(at, 1);
    });
  }

  /** The conversation of a resumed run, and its messages that no step record holds yet. */
  restore(
    proc: Process,
    { messages, unrecorded, compactions, summary }: Omit<SavedHistory, "step" | "asked" | "openStep">,
  ): Promise<void> {
    return this.#change(proc, { messages: messages.length }, (conversation) => {
      for (const message of messages) this.#contexts.appendMessage(conversation.id, message);
      conversation.unrecorded.push(...unrecorded);
      conversation.compactions.push(...compactions);
      conversation.summary = summary;
    });
  }

  /** Applies a compaction to the conversation and to the next step's record; newer messages stay. */
  compact(proc: Process, compaction: Compaction): Promise<void> {
    const { cut, summary } = compaction;
    const args = { offset: 1, cut: cut.length, replaced: summary?.to ?? 0 };
    return this.#change(proc, args, (conversation) => {
      this.#contexts.rewrite(conversation.id, (messages) => applyCompaction(messages, compaction));
      conversation.compactions.push(compaction);
      conversation.summary = summary ?? conversation.summary;
    });
  }

  /** A CtxWrite of the process's own context. */
  #change(
    proc: Process,
    args: Record<string, unknown>,
    run: (conversation: Process["conversation"]) => void,
  ): Promise<void> {
    const { conversation } = proc;
    return this.#debug.call(proc, "CtxWrite", { cid: conversation.id, offset: 0, ...args }, () =>
      run(conversation),
    );
  }

  /** The prompt of the next model call; not a syscall. */
  prompt(proc: Process): Prompt {
    return this.#contexts.buildPrompt(proc.conversation.id);
  }
}
