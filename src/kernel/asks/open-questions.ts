/** The open questions of a process, and the clients that can answer them. */

import { BoundedMap } from "../../lib/caches.ts";
import type { Channel } from "../../lib/channel.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { OpenAsk } from "../../run/ask-schema.ts";
import type { LiveEvent } from "../../run/live-event.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { SpawnOpts } from "../types.ts";
import { defaultsOf } from "./questions.ts";
import { endText, type Settled } from "./verdict.ts";

/** Maximum ended questions that are remembered, so that a late answer fails with the reason. */
const MAX_REMEMBERED = 1_000;

/** An open question. */
export interface Waiting {
  proc: Process;
  ask: OpenAsk;
  grant: FileGrant | null;
  /** How it ended; the first decision counts. */
  settled: PromiseWithResolvers<Settled>;
  isSettled: boolean;
}

export class OpenQuestions {
  readonly #open = new Map<string, Waiting>();
  /** How the last questions ended, by id. */
  readonly #ended = new BoundedMap<string, string>(MAX_REMEMBERED);

  get size(): number {
    return this.#open.size;
  }

  add(waiting: Waiting): void {
    this.#open.set(waiting.ask.id, waiting);
  }

  get(id: string): Waiting | undefined {
    return this.#open.get(id);
  }

  all(): Waiting[] {
    return [...this.#open.values()];
  }

  /** Removes a question that no call waits for any more. */
  delete(id: string): void {
    this.#open.delete(id);
  }

  /** Ends the question with this decision, unless it has ended before. */
  settle(waiting: Waiting, settled: Settled): void {
    if (waiting.isSettled) return;
    waiting.isSettled = true;
    this.end(waiting.ask.id, endText(waiting.ask, settled));
    waiting.settled.resolve(settled);
  }

  /** Remembers how a question ended. */
  end(id: string, how: string): void {
    this.#ended.set(id, how);
  }

  hasEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  overError(id: string): SyscallError {
    const how = this.#ended.get(id) ?? "it was answered";
    return new SyscallError("CLOSED", `Question ${id} is over: ${how}.`);
  }
}

/** The clients that can answer the questions of each process, and what decides where there is none. */
export class Attendance {
  readonly #table: Pick<ProcessTable, "ancestry">;
  readonly #answering = new WeakMap<Process, Set<Channel<LiveEvent>>>();
  /** Processes whose client has attached, or is not expected any more. */
  readonly #met = new WeakSet<Process>();

  constructor(table: Pick<ProcessTable, "ancestry">) {
    this.#table = table;
  }

  /** Adds a client that can answer. Returns a function that removes it and returns how many the process still has. */
  add(proc: Process, client: Channel<LiveEvent>): () => number | null {
    this.#met.add(proc);
    const clients = this.#answering.get(proc) ?? new Set();
    this.#answering.set(proc, clients.add(client));
    return () => (clients.delete(client) ? clients.size : null);
  }

  /** Stops waiting for the client that began the run, because it has not attached in time. */
  expectNone(proc: Process): void {
    for (const one of this.#table.ancestry(proc)) this.#met.add(one);
  }

  /** A client can answer, or the client that has just begun the run is about to attach. */
  canAnswer(proc: Process): boolean {
    const above = this.#table.ancestry(proc);
    const top = above.at(-1) ?? proc;
    if (top.spec.opts.attended && !this.#met.has(top)) return true;
    return above.some((one) => (this.#answering.get(one)?.size ?? 0) > 0);
  }

  /**
   * What decides when no client can answer: the policy of the run, or of its nearest ancestor with one. A run that a
   * person has started at a terminal waits for the person.
   */
  policyOf(proc: Process): NonNullable<SpawnOpts["on_ask"]> {
    const above = this.#table.ancestry(proc).map(({ spec }) => spec.opts);
    const said = above.find(({ on_ask }) => on_ask !== undefined)?.on_ask;
    return said ?? (above.at(-1)?.attended ? "park" : "deny");
  }

  /** The decision when there is no person to ask, or none has answered in time. */
  byPolicy(proc: Process, { kind, questions }: OpenAsk, by: "on_ask" | "expiry"): Settled {
    const takesDefault = kind === "permission" || this.policyOf(proc) === "default";
    const answers = takesDefault ? defaultsOf(questions) : questions.map(() => ({ choices: [] }));
    return { by, answers };
  }
}
