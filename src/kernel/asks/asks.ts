/** The questions of processes: who can answer, how they end, what decides without an answer. */

import { BoundedMap } from "../../lib/caches.ts";
import type { Channel } from "../../lib/channel.ts";
import { orAborted, type Timer } from "../../lib/clock.ts";
import { type Ask, SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import type { LiveAsk, LiveEvent } from "../../run/live-event.ts";
import { type Asked, PLAN, TAINT_REFUSED } from "../permission/ask-rules.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { OpenedFolder } from "../permission/opened-folders.ts";
import type { Process } from "../process/process.ts";
import { answerWake } from "../process/process-info.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { Calls } from "../tiers/calls.ts";
import type { SpawnOpts } from "../types.ts";
import { type AskRequest, permissionRequest, questionRequest } from "./ask-request.ts";
import { askedText, instructionText, refusedBy, refusedByPlan, refusedByTaint } from "./ask-text.ts";
import { defaultsOf, replyTo } from "./questions.ts";
import { checkRules, takeAnswers } from "./take-answers.ts";
import { endText, type Settled, verdictOf, YES } from "./verdict.ts";

/** How long a question waits for the client that started the run, before the policy decides. */
const CLIENT_MS = 1_000;

type AskEvent = Extract<LiveEvent, { event: "ask" | "ask_closed" }>;

/**
 * A question is shown to the clients that can answer for the process or one of its ancestors; the first answer counts.
 * Without such a client the run's policy decides at once. Each question expires, and then its default counts. A process's
 * clock is stopped while it waits for a person.
 */
export class Asks {
  readonly #parts: Calls;
  readonly #open = new OpenQuestions();
  /** How long calls under way have waited for a person, by call. */
  readonly #waited = new WeakMap<Process, Map<string, number>>();
  readonly #attendance: Attendance;

  constructor(parts: Calls) {
    this.#parts = parts;
    this.#attendance = new Attendance(parts.table);
  }

  get size(): number {
    return this.#open.size;
  }

  /** Resolves when a person has allowed the call. Fails with PERMISSION when it is refused. */
  async require(
    proc: Process,
    grant: FileGrant,
    asked: Asked,
    opened: string | undefined,
    signal: AbortSignal,
  ): Promise<AskVerdict> {
    const inProject = this.#parts.asker !== undefined && proc.spec.opts.project.id !== "user";
    const request = permissionRequest(proc, grant, asked, opened, { inProject });
    if (asked.rules.includes(PLAN) && request.earlier === undefined) throw refusedByPlan(request.call);
    if (asked.rules.includes(TAINT_REFUSED)) throw refusedByTaint(request.call);
    const verdict = request.earlier ?? (await this.#decide(proc, request, signal));
    if (verdict.verdict === "no") throw refusedBy(request.call, verdict);
    grant.approve(asked, opened);
    const { opens } = request.call;
    if (opens) await this.openFolders(proc, [opens]);
    return verdict;
  }

  /** Whether a person who can answer watches the process or one of its ancestors. */
  isAttended(proc: Process): boolean {
    return this.#attendance.canAnswer(proc);
  }

  /** The service `ask` of one open file: one list of questions after the other, so that a resume finds each again. */
  service(proc: Process, callId: string | undefined, signal: AbortSignal): Ask {
    const asked = new Map<string, number>();
    let last: Promise<unknown> = Promise.resolve();
    const before = (what: string): number => {
      const times = asked.get(what) ?? 0;
      asked.set(what, times + 1);
      return times;
    };
    return {
      ask: (questions) => {
        const made = last.then(async () => {
          signal.throwIfAborted();
          const request = questionRequest(proc, callId, questions, before);
          const verdict = request.earlier ?? (await this.#decide(proc, request, signal));
          return replyTo(request.questions, verdict);
        });
        last = made.catch(() => undefined);
        return made;
      },
    };
  }

  /** The questions of all live processes, oldest first. */
  list(): LiveAsk[] {
    const asks = this.#parts.table
      .all()
      .flatMap((proc) => [...proc.asks.values()].map((ask) => liveAsk(proc, ask)));
    return asks.sort((a, b) => a.ask.asked_at_ms - b.ask.asked_at_ms);
  }

  /**
   * Answers a question. The first answer counts. Returns null when no live process asks it. Fails with CLOSED for a
   * question that has its verdict, and INVALID for an answer that does not fit.
   */
  answer(id: string, answers: readonly AskAnswer[], via: string): LiveAsk | null {
    const proc = this.#parts.table.all().find(({ asks }) => asks.has(id));
    const ask = proc?.asks.get(id);
    const waiting = this.#open.get(id);
    if (ask?.answers || waiting?.isSettled || (!ask && this.#open.hasEnded(id)))
      throw this.#open.overError(id);
    // The last record of an ended process is written: what it waits for is on disk.
    if (!proc || !ask || proc.exit) return null;
    const answered = takeAnswers(ask, answers, via);
    checkRules(ask, answers, proc.permissions, waiting?.grant?.call);
    // A run that is being suspended or resumed in this moment takes the answer when it asks again.
    proc.asks.set(id, answered);
    const settled: Settled = { by: "user", answers, via };
    if (waiting) this.#open.settle(waiting, settled);
    else this.#open.end(id, endText(ask, settled));
    return liveAsk(proc, ask);
  }

  /** Shows a client the open questions of the process and its descendants. `answers`: it can answer them. */
  attach(proc: Process, channel: Channel<LiveEvent>, answers: boolean): () => void {
    for (const one of this.#parts.table.tree(proc))
      for (const ask of one.asks.values()) channel.push({ event: "ask", ask: liveAsk(one, ask) });
    if (!answers) return () => undefined;
    const leave = this.#attendance.add(proc, channel);
    return () => {
      if (leave() === 0) this.#leftAlone();
    };
  }

  /**
   * The verdicts of a call that is over, for its record, how long it has waited for a person, and what the person has
   * `added` for the model.
   */
  take(proc: Process, callId: string): { asked: AskVerdict[]; waitedMs: number; added: string } {
    for (const { proc: asking, ask, settled } of this.#open.values())
      if (asking === proc && ask.call_id === callId)
        settled.reject(new SyscallError("CLOSED", "The call that asks is over."));
    // A question of a suspended run that its call no longer needed.
    const left = proc.stopped ? [] : [...proc.asks.values()].filter((ask) => ask.call_id === callId);
    for (const ask of left) {
      proc.asks.delete(ask.id);
      this.#emit(proc, { event: "ask_closed", ask: liveAsk(proc, ask), verdict: null });
    }
    const asked = proc.verdicts.get(callId) ?? [];
    const waitedMs = this.#waited.get(proc)?.get(callId) ?? 0;
    proc.verdicts.delete(callId);
    this.#waited.get(proc)?.delete(callId);
    return { asked, waitedMs, added: instructionText(asked) };
  }

  async #decide(proc: Process, request: AskRequest, signal: AbortSignal): Promise<AskVerdict> {
    const restored = this.#restored(proc, request);
    const isAttended = this.#attendance.canAnswer(proc);
    let ask = restored ?? this.#newAsk(proc, request, isAttended);
    if (ask.answers)
      return this.#conclude(proc, ask, { by: "user", answers: ask.answers, via: ask.answered_by });
    const canPark = this.#canPark(proc, ask);
    if (restored && this.#isExpired(proc, restored, canPark))
      return this.#conclude(proc, ask, { by: "expiry", answers: defaultsOf(ask.questions) });
    if (!isAttended && !canPark)
      return this.#conclude(proc, ask, this.#attendance.byPolicy(proc, ask, "on_ask"));
    // If a person can answer now, the restored question gets as much time as a new one.
    if (restored && isAttended) ask = { ...restored, until_ms: this.#liveUntil(proc) };
    return this.#conclude(proc, ask, await this.#ask(proc, request.grant, ask, signal));
  }

  /** Whether the run may be suspended until the question is answered. */
  #canPark(proc: Process, { call_id }: OpenAsk): boolean {
    const isStepCall = call_id !== null && this.#parts.drain.isActive(proc, call_id);
    return isStepCall && this.#attendance.policyOf(proc) === "park";
  }

  /** The time of a question that was parked is over. One that was open in a crash waits as long as a parked one. */
  #isExpired(proc: Process, { asked_at_ms, until_ms }: OpenAsk, canPark: boolean): boolean {
    if (until_ms === null) return false;
    const parkedUntil = canPark ? asked_at_ms + proc.spec.opts.limits.question_parked : 0;
    return Math.max(until_ms, parkedUntil) <= this.#parts.clock.now();
  }

  /** The question that this call waited for when its run was suspended. */
  #restored(proc: Process, { kind, call, callId, questions }: AskRequest): OpenAsk | undefined {
    const on = callId === undefined ? undefined : this.#parts.waiting.of(proc, callId);
    const ask = on?.on === "answer" ? proc.asks.get(on.id) : undefined;
    return ask?.kind === kind && askedText(ask) === askedText({ call, questions }) ? ask : undefined;
  }

  /** How long a question waits for a person who is there. In a conversation it waits until its last client leaves. */
  #liveUntil(proc: Process): number | null {
    const { clock, table } = this.#parts;
    const isConversation = table.ancestry(proc).at(-1)?.spec.opts.chat === true;
    return isConversation ? null : clock.now() + proc.spec.opts.limits.question_timeout;
  }

  #newAsk(proc: Process, { kind, call, callId, questions }: AskRequest, isAttended: boolean): OpenAsk {
    const { clock, uuid } = this.#parts;
    const { limits } = proc.spec.opts;
    const now = clock.now();
    return {
      id: uuid().slice(-8),
      kind,
      step: proc.run.step,
      call_id: callId ?? null,
      asked_at_ms: now,
      until_ms: isAttended ? this.#liveUntil(proc) : now + limits.question_parked,
      call,
      questions,
    };
  }

  /** Emits the question and waits for the first decision: an answer, its expiry, or the run's policy. */
  async #ask(proc: Process, grant: FileGrant | null, ask: OpenAsk, signal: AbortSignal): Promise<Settled> {
    const { clock, waiting: calls } = this.#parts;
    const waiting: Waiting = { proc, ask, grant, settled: Promise.withResolvers(), isSettled: false };
    // Handled here, because the promise may be rejected before anything awaits it.
    waiting.settled.promise.catch(() => undefined);
    const release = this.#parts.table.holdClocks(proc);
    const resume = this.#parts.windows.pause(proc);
    const since = clock.monotonic();
    let late: Timer | undefined;
    proc.asks.set(ask.id, ask);
    this.#open.set(ask.id, waiting);
    const timer =
      ask.until_ms === null ? null : clock.timer(ask.until_ms - clock.now(), () => this.#timeIsUp(waiting));
    try {
      if (ask.call_id !== null && this.#parts.drain.isActive(proc, ask.call_id))
        await calls.begin(proc, ask.call_id, answerWake(ask));
      await this.#parts.saveInfo(proc);
      this.#emit(proc, { event: "ask", ask: liveAsk(proc, ask) });
      if (!this.#attendance.canAnswer(proc)) this.#park(waiting);
      late = clock.timer(CLIENT_MS, () => this.#giveUpClient(proc));
      return await orAborted(waiting.settled.promise, signal);
    } catch (thrown) {
      this.#withdraw(waiting);
      throw thrown;
    } finally {
      timer?.cancel();
      late?.cancel();
      release();
      resume();
      this.#open.delete(ask.id);
      this.#addWait(proc, ask, clock.monotonic() - since);
    }
  }

  #addWait(proc: Process, { call_id }: OpenAsk, ms: number): void {
    if (call_id === null) return;
    const waited = this.#waited.getOrInsertComputed(proc, () => new Map());
    waited.set(call_id, (waited.get(call_id) ?? 0) + ms);
    // The call has asked, also if it gets no verdict.
    if (!proc.verdicts.has(call_id)) proc.verdicts.set(call_id, []);
  }

  /** The call ends without a verdict. A suspended run keeps its question. */
  #withdraw({ proc, ask }: Waiting): void {
    const isKept = proc.stopped?.reason === "suspended" && ask.call_id !== null;
    if (!isKept) {
      proc.asks.delete(ask.id);
      if (ask.call_id !== null) this.#parts.waiting.end(proc, ask.call_id);
      this.#open.end(ask.id, "it was withdrawn, because its call ended");
    }
    const closed = { event: "ask_closed", ask: liveAsk(proc, ask), verdict: null } as const;
    this.#emit(proc, { ...closed, ...(isKept && { parked: true }) });
  }

  /** The person has not answered in time: the policy decides. */
  #timeIsUp(waiting: Waiting): void {
    const { proc, ask } = waiting;
    if (waiting.isSettled || proc.stopped) return;
    if (this.#canPark(proc, ask)) this.#park(waiting);
    else this.#open.settle(waiting, this.#attendance.byPolicy(proc, ask, "expiry"));
  }

  #emit(proc: Process, event: AskEvent): void {
    for (const one of this.#parts.table.ancestry(proc)) this.#parts.watchers.asked(one, event);
  }

  #park({ proc, ask }: Waiting): void {
    if (proc.stopped) return;
    const name = ask.call === null ? "" : `${ask.call.tool ?? "open"} `;
    const what = askedText(ask).replaceAll(/\s+/g, " ").slice(0, 100);
    const reason = `it waits for a person's answer ${ask.id}: ${name}${what}`;
    const until_ms = this.#parts.clock.now() + proc.spec.opts.limits.question_parked;
    const parked = { ...ask, until_ms: Math.max(ask.until_ms ?? 0, until_ms) };
    proc.asks.set(ask.id, parked);
    this.#parts.suspend(proc, reason, answerWake(parked));
    this.#parts.asker?.parked(liveAsk(proc, parked));
  }

  /** The last client that could answer has gone: the policy decides. */
  #leftAlone(): void {
    for (const waiting of [...this.#open.values()]) {
      const { proc, ask } = waiting;
      if (waiting.isSettled || proc.stopped || this.#attendance.canAnswer(proc)) continue;
      if (this.#canPark(proc, ask)) this.#park(waiting);
      else this.#open.settle(waiting, this.#attendance.byPolicy(proc, ask, "on_ask"));
    }
  }

  /** Records the verdict, and makes a yes durable before the call acts. */
  async #conclude(proc: Process, ask: OpenAsk, settled: Settled): Promise<AskVerdict> {
    const { clock, waiting: calls } = this.#parts;
    const verdict = verdictOf(ask, settled, clock.now());
    const wasOpen = proc.asks.delete(ask.id);
    // Verdicts of other calls are in the trace.
    if (ask.call_id !== null && this.#parts.drain.isActive(proc, ask.call_id)) {
      proc.verdicts.set(ask.call_id, [...(proc.verdicts.get(ask.call_id) ?? []), verdict]);
      calls.end(proc, ask.call_id);
      const ts = new Date(clock.now()).toISOString();
      proc.record.journal({ t: "verdict", step: proc.run.step, ts, id: ask.call_id, verdict });
      if (verdict.verdict !== "no") await proc.record.sync();
    }
    if (wasOpen) {
      await this.#parts.saveInfo(proc);
      this.#emit(proc, { event: "ask_closed", ask: liveAsk(proc, ask), verdict });
    }
    if (verdict.allowed) await this.#allowAlways(proc, verdict.allowed, verdict.verdict === "always_project");
    return verdict;
  }

  /** Applies an "always" to the whole tree or to every run of the project. It may also answer open questions. */
  async #allowAlways(proc: Process, rules: readonly string[], inProject: boolean): Promise<void> {
    const { asker, table, warn } = this.#parts;
    const { project } = proc.spec.opts;
    const inSame = table.all().filter(({ spec }) => spec.opts.project.id === project.id);
    const roots = inProject
      ? inSame.filter((one) => table.parent(one) === undefined)
      : [table.ancestry(proc).at(-1) ?? proc];
    for (const root of roots)
      table.setPermissions(root, root.permissions.allowAlways(rules, inProject ? "project" : "run"));
    if (inProject) {
      try {
        const written = await asker?.allowInProject(project, rules);
        // The line is the user's, and no change of a run.
        for (const { spec } of written ? inSame : [])
          spec.opts.outputs = [...(spec.opts.outputs ?? []), ...(written ?? [])];
      } catch (thrown) {
        warn(`PID ${proc.pid}`, `${rules.join(", ")} could not be stored for the project: ${String(thrown)}`);
      }
    }
    this.recheck(rules.join(", "));
  }

  /** Answers the open questions that need none any more. `via`: what has allowed their calls. */
  recheck(via: string): void {
    for (const waiting of this.#open.values()) {
      const { proc: other, ask, grant } = waiting;
      if (!ask.call || !grant || waiting.isSettled) continue;
      if (other.permissions.asks({ ...grant.call, opened: ask.call.opened }) === null)
        this.#open.settle(waiting, { by: "rule", answers: [YES], via });
    }
  }

  async openFolders(proc: Process, folders: readonly OpenedFolder[]): Promise<void> {
    const { table, saveInfo } = this.#parts;
    const root = table.ancestry(proc).at(-1) ?? proc;
    const permissions = root.permissions.opening(folders);
    if (permissions === root.permissions) return;
    table.setPermissions(root, permissions);
    for (const one of table.tree(root)) await saveInfo(one);
    this.recheck(folders.map(({ dir }) => dir).join(", "));
  }

  /** The client that started the run has not attached in time. */
  #giveUpClient(proc: Process): void {
    this.#attendance.expectNone(proc);
    this.#leftAlone();
  }
}

function liveAsk({ pid, uuid, spec }: Process, ask: OpenAsk): LiveAsk {
  return { pid, uuid, agent: spec.agent.name, depth: spec.depth, intent: spec.intent, ask };
}

/** Maximum ended questions that are remembered, so that a late answer fails with the reason. */
const MAX_REMEMBERED = 1_000;

/** An open question. */
interface Waiting {
  proc: Process;
  ask: OpenAsk;
  grant: FileGrant | null;
  /** How it ended; the first decision counts. */
  settled: PromiseWithResolvers<Settled>;
  isSettled: boolean;
}

/** The open questions, by id. One is removed when no call waits for it any more. */
class OpenQuestions extends Map<string, Waiting> {
  /** How the last questions ended, by id. */
  readonly #ended = new BoundedMap<string, string>(MAX_REMEMBERED);

  /** Ends the question with this decision, unless it has ended before. */
  settle(waiting: Waiting, settled: Settled): void {
    if (waiting.isSettled) return;
    waiting.isSettled = true;
    this.end(waiting.ask.id, endText(waiting.ask, settled));
    waiting.settled.resolve(settled);
  }

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
class Attendance {
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
    const clients = this.#answering.getOrInsertComputed(proc, () => new Set()).add(client);
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
