/** The syscalls of concurrency: threads and coroutines. */

import { either, onceAborted, withDeadline, withTimeout } from "../lib/cancellation.ts";
import { type Message, SyscallError } from "../plugin/index.ts";
import {
  type CoID,
  type CoroutineBody,
  CoroutineTask,
  type Resumed,
  TaskTable,
  type Thread,
  ThreadTask,
  type ThreadWork,
  type TID,
} from "./concurrency/tasks.ts";
import type { Process } from "./process/process.ts";
import type { ResourceHolder } from "./process/resource-holder.ts";
import type { Core } from "./tiers/core.ts";
import type { PID } from "./types.ts";

export type {
  CoID,
  Coroutine,
  CoroutineBody,
  Resumed,
  Thread,
  ThreadWork,
  TID,
} from "./concurrency/tasks.ts";

/** How long to wait for another task, at most until the process ends. */
interface WaitOptions {
  signal?: AbortSignal;
  /** Fails with TIMEOUT after this many ms without paused time. */
  timeoutMs?: number;
}

/** Characters of an intent in the trace. */
const INTENT_SHOWN = 200;

/**
 * SpawnThread, JoinThread, SpawnCoroutine, ResumeCoroutine. Threads and coroutines share the
 * conversation of their process, are cancelled with it, and are freed at its reap.
 */
export class ConcurrencyManager {
  /** Reap step 8. */
  readonly threads: ResourceHolder;
  /** Reap step 9. */
  readonly coroutines: ResourceHolder;

  readonly #parts: Core;
  readonly #threads = new Map<Process, TaskTable<ThreadTask>>();
  readonly #coroutines = new Map<Process, TaskTable<CoroutineTask>>();

  constructor(parts: Core) {
    this.#parts = parts;
    this.threads = this.#holder("threads", this.#threads);
    this.coroutines = this.#holder("coroutines", this.#coroutines);
  }

  /**
   * Starts work beside the process's own task. Fails with CLOSED when the process is ending, with EXHAUSTED when it has
   * too many threads.
   */
  spawnThread(pid: PID, intent: string, work: ThreadWork): Promise<TID> {
    const proc = this.#parts.table.get(pid);
    return this.#create(proc, "SpawnThread", intent, () => {
      const task = tableFor(this.#threads, proc, "thread").add((tid) => new ThreadTask(tid, intent));
      task.start(work, this.#handle(proc, task));
      return task;
    });
  }

  /**
   * Waits for a thread and returns its result or throws its error; repeatable until the reap. Fails with NOT_FOUND for an
   * unknown TID, with CANCELLED when the process ends first or must stop.
   */
  joinThread(pid: PID, tid: TID, options: WaitOptions = {}): Promise<unknown> {
    const proc = this.#parts.table.get(pid);
    return this.#parts.debug.call(proc, "JoinThread", { tid }, async () => {
      const task = find(this.#threads, proc, "thread", tid);
      return await this.#within(proc, options, `Thread ${tid} has not ended`, (signal) => task.join(signal));
    });
  }

  /** The body begins with the first resume. Fails with CLOSED and EXHAUSTED as for threads. */
  spawnCoroutine(pid: PID, intent: string, body: CoroutineBody): Promise<CoID> {
    const proc = this.#parts.table.get(pid);
    const make = (coid: CoID): CoroutineTask => new CoroutineTask(coid, pid, intent, body);
    return this.#create(proc, "SpawnCoroutine", intent, () =>
      tableFor(this.#coroutines, proc, "coroutine").add(make),
    );
  }

  /**
   * Passes a value in and runs the coroutine to its next yield or its end: then `done` with its result, or its error is
   * thrown. Fails with NOT_FOUND for an unknown CoID, INVALID while it runs, CLOSED after its end. A caller that gives up
   * (signal, TIMEOUT) cancels the coroutine.
   */
  resumeCoroutine(pid: PID, coid: CoID, value?: unknown, options: WaitOptions = {}): Promise<Resumed> {
    const proc = this.#parts.table.get(pid);
    return this.#parts.debug.call(
      proc,
      "ResumeCoroutine",
      { coid },
      async () => {
        const task = find(this.#coroutines, proc, "coroutine", coid);
        options.signal?.throwIfAborted();
        return await this.#within(proc, options, `Coroutine ${coid} has not yielded`, (signal) =>
          task.resume(value, signal),
        );
      },
      ({ done }) => ({ done }),
    );
  }

  /** Makes a task, which is cancelled when the process must stop. Returns its id. */
  #create(proc: Process, syscall: string, intent: string, make: () => Task): Promise<number> {
    const spawn = (): number => {
      assertRuns(proc);
      const task = make();
      const ignore = onceAborted(proc.signal, () => task.cancel(proc.signal.reason));
      void task.ended.then(ignore);
      return task.id;
    };
    const args = { intent: intent.slice(0, INTENT_SHOWN) };
    return this.#parts.debug.call(proc, syscall, args, spawn, (id) => id);
  }

  /** The thread as its work sees it. */
  #handle(proc: Process, { id, intent, signal }: ThreadTask): Thread {
    const { ctx } = this.#parts;
    return {
      tid: id,
      pid: proc.pid,
      intent,
      signal,
      append: async (message) => {
        assertNotEnded(proc);
        assertNoTurn(message);
        await ctx.append(proc, message);
      },
      read: async (offset, length) => {
        assertNotEnded(proc);
        return await ctx.read(proc, proc.conversation.id, offset, length);
      },
    };
  }

  /** A wait that ends with the process, with the caller's signal, or with TIMEOUT, whichever comes first. */
  #within<T>(
    proc: Process,
    { signal, timeoutMs }: WaitOptions,
    what: string,
    wait: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const stop = either(proc.signal, signal);
    if (timeoutMs === undefined) return wait(stop);
    return withDeadline(proc.clock, stop, timeoutMs, `${what} within ${timeoutMs} ms.`, wait);
  }

  #holder<T extends Task>(what: string, tables: Map<Process, TaskTable<T>>): ResourceHolder {
    return {
      clear: async (proc) => {
        const table = tables.get(proc);
        if (!table) return;
        try {
          await this.#end(proc, what, table.live());
        } finally {
          tables.delete(proc);
        }
      },
      get size() {
        return [...tables.values()].reduce((sum, table) => sum + table.size, 0);
      },
    };
  }

  /** Cancels them and waits for their end, at most for the grace. */
  async #end(proc: Process, what: string, tasks: readonly Task[]): Promise<void> {
    if (tasks.length === 0) return;
    const reason = new SyscallError("CANCELLED", `Process ${proc.pid} has ended.`);
    for (const task of tasks) task.cancel(reason);
    const { grace } = proc.spec.opts.limits;
    await withTimeout(this.#parts.clock, grace, Promise.all(tasks.map((task) => task.ended)));
    const deaf = tasks.filter((task) => task.live);
    if (deaf.length === 0) return;
    const names = deaf.map(({ intent }) => JSON.stringify(intent.slice(0, INTENT_SHOWN))).join(", ");
    this.#parts.warn(
      `PID ${proc.pid}`,
      `${deaf.length} of its ${what} did not end within ${grace} ms of their cancellation and were given up: ${names}`,
    );
    for (const task of deaf) task.giveUp();
  }
}

type Task = ThreadTask | CoroutineTask;

/** The threads or coroutines of a process; made with its first one. */
function tableFor<T extends Task>(
  tables: Map<Process, TaskTable<T>>,
  proc: Process,
  what: string,
): TaskTable<T> {
  const table = tables.get(proc) ?? new TaskTable<T>(what);
  tables.set(proc, table);
  return table;
}

function find<T extends Task>(
  tables: Map<Process, TaskTable<T>>,
  proc: Process,
  what: string,
  id: number,
): T {
  return (tables.get(proc) ?? new TaskTable<T>(what)).get(id);
}

function assertRuns(proc: Process): void {
  if (proc.state === "running" && !proc.stopped && !proc.ending) return;
  throw new SyscallError("CLOSED", `Process ${proc.pid} has ended or is ending, and starts nothing new.`);
}

function assertNotEnded(proc: Process): void {
  if (proc.state === "running") return;
  throw new SyscallError("CLOSED", `Process ${proc.pid} has ended, and its conversation with it.`);
}

/** Whether a message may be anywhere in a conversation. Providers require a call and its result together. */
function assertNoTurn({ role, tool_calls }: Message): void {
  if ((role === "user" || role === "assistant") && !tool_calls?.length) return;
  throw new SyscallError(
    "INVALID",
    `A thread appends messages of role "user" or "assistant" without calls; this one has role "${role}" and ${tool_calls?.length ?? 0} calls.`,
  );
}
