/** What a user asks of a live run in a conversation. */

import { SyscallError } from "../../plugin/index.ts";
import type { UserMessage } from "../../run/live-event.ts";
import { storeImages } from "../conversation/conversations.ts";
import { asUserMessage } from "../ipc/inbox.ts";
import { requirePrice } from "../lifetime/spawn-limits.ts";
import type { ModelChoice } from "../process/live-state.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import type { AppliedCompaction, AttachedImage, PID } from "../types.ts";

export interface Interrupted {
  interrupted: "model" | "tools" | null;
  text_seen: boolean;
  put_back: number[];
}

/** What its sender calls a message, and the digest of its request. */
export interface MessageKey {
  key: string;
  digest: string;
}

/** A message of the user for a live run. */
export interface OutgoingMessage extends Pick<UserMessage, "text" | "when"> {
  images?: readonly AttachedImage[];
  /** Deduplicates: the same message with the same key is taken once. */
  key?: MessageKey;
}

/** What a user asks of a live run: messages, an interruption, another model, a compaction, the end of a chat. */
export class ChatControl {
  readonly #parts: Io;

  constructor(parts: Io) {
    this.#parts = parts;
  }

  /**
   * Puts a message of the user into the inbox of a run; it is durable when this resolves. `suspended`: the run has been
   * suspended meanwhile, and reads it after a resume. Fails with INVALID if the run is no agent's or its model takes no images, EXHAUSTED when too many
   * messages wait, and CLOSED when the run has ended or is ending.
   */
  async send(
    pid: PID,
    { text, when, images = [], key }: OutgoingMessage,
  ): Promise<{ seq: number; suspended: boolean }> {
    const send = async (): Promise<{ seq: number; suspended: boolean }> => {
      const proc = this.#agent(pid);
      if (images.length > 0) await this.#requireImages(proc);
      // The message is no safer than the run that it belongs to.
      await proc.record.sync();
      const entry = await this.#parts.inboxes.put(proc, {
        kind: "input",
        ts: new Date(this.#parts.clock.now()).toISOString(),
        text: proc.secrets.hide(text),
        ...(when === "after_answer" && { when }),
        ...(images.length > 0 && { images: await storeImages(proc.record, images) }),
        ...key,
      });
      const end = proc.stopped && (await proc.done);
      return { seq: entry.seq, suspended: end?.reason === "suspended" };
    };
    const args = { to: pid, size: text.length, images: images.length, when };
    return this.#parts.debug.callFor(undefined, pid, "Send", args, send, ({ seq }) => seq);
  }

  /** Takes back a message that the model has not read; durable when it resolves. Fails with NOT_FOUND if it has. */
  async takeBack(pid: PID, seq: number): Promise<UserMessage> {
    const takeBack = async (): Promise<UserMessage> => {
      const proc = this.#agent(pid);
      const message = asUserMessage(await this.#parts.inboxes.of(proc).takeBack(seq));
      this.#parts.watchers.emit(proc, { event: "message", state: "taken_back", ...message });
      return message;
    };
    return this.#parts.debug.callFor(undefined, pid, "TakeBack", { pid, seq }, takeBack, () => seq);
  }

  /**
   * Cancels the model call or the tool calls under way; then the run waits for a message. Resolves when they have ended,
   * with their programs and children; a second call meanwhile ends programs without grace. Does nothing when none is
   * under way. `text_seen`: the beginning of an answer stays in the conversation. If not, `put_back` has the numbers of the
   * messages that the model was about to read: they are in the inbox again, and wait for a new message.
   */
  interrupt(pid: PID): Promise<Interrupted> {
    const interrupt = async (): Promise<Interrupted> => {
      const { children, table } = this.#parts;
      const proc = this.#agent(pid);
      const { underway, interrupted, arriving } = proc.work;
      if (underway === null || proc.stopped) return { interrupted: null, text_seen: false, put_back: [] };
      if (interrupted) for (const { uuid } of table.tree(proc)) children.hurryOwner(uuid);
      const what = proc.model.served?.busy ? "tools" : underway;
      const putBack = await Promise.race([proc.work.interrupt(), proc.done.then(() => [])]);
      return { interrupted: what, text_seen: what === "model" && arriving !== "", put_back: [...putBack] };
    };
    const shown = ({ interrupted }: Interrupted): Interrupted["interrupted"] => interrupted;
    return this.#parts.debug.callFor(undefined, pid, "Interrupt", { pid }, interrupt, shown);
  }

  /**
   * Gives a run another model or effort: now if it waits for a message, else before its next model call; then `applied` is
   * false. Fails with INVALID without a known price where a cost limit needs one, and if the conversation has images that
   * the model does not take.
   */
  async setModel(pid: PID, { provider, effort }: ModelChoice): Promise<{ applied: boolean }> {
    const set = async (): Promise<{ applied: boolean }> => {
      const proc = this.#agent(pid);
      if (proc.exit || proc.stopped) {
        throw new SyscallError("CLOSED", `PID ${pid} has ended or is ending: its model can't be changed.`, {
          pid,
        });
      }
      const { budget, opts } = proc.spec;
      if (provider) requirePrice(budget.limits, { ...opts, provider }, budget);
      const changed = proc.requests.changeModel({ provider, effort });
      if (!proc.waitsForMessage) return { applied: false };
      proc.requests.wake?.();
      await Promise.race([changed, proc.done]);
      return { applied: true };
    };
    const args = { pid, provider: provider?.name, model: provider?.model, effort };
    return this.#parts.debug.callFor(undefined, pid, "SetModel", args, set, ({ applied }) => applied);
  }

  /**
   * Compacts the conversation before the next step, or now if a chat waits for a message. Resolves when that is done.
   * Fails with NOT_FOUND if there is no such process, INVALID if it is paused, has ended or is not an agent, and CLOSED
   * if it ends before another step.
   */
  compact(pid: PID): Promise<AppliedCompaction> {
    const compact = async (): Promise<AppliedCompaction> => {
      const proc = this.#agent(pid);
      const refusal =
        proc.exit || proc.stopped
          ? `PID ${pid} has ended: there is no conversation to compact.`
          : proc.paused && `PID ${pid} is paused. Continue it first: \`rnix continue ${pid}\`.`;
      if (refusal) throw new SyscallError("INVALID", refusal);
      const compacted = proc.requests.compact();
      proc.requests.wake?.();
      const ended = proc.done.then(({ reason }): never => {
        throw new SyscallError("CLOSED", `PID ${pid} ended (${reason}) before its next step.`, { pid });
      });
      return Promise.race([compacted, ended]);
    };
    return this.#parts.debug.callFor(
      undefined,
      pid,
      "Compact",
      { pid },
      compact,
      ({ tokensBefore, tokensAfter }) => ({ tokens_before: tokensBefore, tokens_after: tokensAfter }),
    );
  }

  /** Whether a process waits for a message of its user now. */
  waits(pid: PID): boolean {
    return this.#parts.table.get(pid).waitsForMessage;
  }

  /**
   * Ends a chat as completed, now or when its present answer and all waiting messages are done. Fails with INVALID for
   * another run. Returns whether it has ended.
   */
  async end(pid: PID): Promise<{ ended: boolean }> {
    const end = async (): Promise<{ ended: boolean }> => {
      const proc = this.#agent(pid);
      if (!proc.spec.opts.chat) {
        throw new SyscallError("INVALID", `PID ${pid} is no chat: it ends by itself with its answer.`, {
          pid,
        });
      }
      proc.requests.chatEnds = true;
      if (!proc.waitsForMessage) return { ended: false };
      proc.requests.wake?.();
      await proc.done;
      return { ended: true };
    };
    return this.#parts.debug.callFor(undefined, pid, "EndChat", { pid }, end, ({ ended }) => ended);
  }

  #agent(pid: PID): Process {
    const proc = this.#parts.table.get(pid);
    if (proc.spec.kind === "agent") return proc;
    throw new SyscallError("INVALID", `PID ${pid} is not an agent: it has no conversation.`, { pid });
  }

  async #requireImages(proc: Process): Promise<void> {
    const { fd } = proc.model;
    const facts = proc.fds.has(fd) ? await this.#parts.files.facts(proc, fd) : undefined;
    if (facts === undefined || facts.images === true) return;
    throw new SyscallError(
      "INVALID",
      `The message has images, but ${proc.model.provider.device} accepts none. Leave them out, or choose another model.`,
    );
  }
}
