/** The syscalls of concurrency: threads and coroutines. */

import { either, onceAborted, withDeadline } from "../lib/clock.ts";
import { type Message, SyscallError } from "../plugin/index.ts";
import {
  type CoID,
  type CoroutineBody,
  CoroutineTask,
  type Resumed,
  Task,
  Tasks,
  type Thread,
  type ThreadWork,
  type TID,
} from "./concurrency/tasks.ts";
import type { Process } from "./process/process.ts";
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
  readonly threads: Tasks<Task>;
  /** Reap step 9. */
  readonly coroutines: Tasks<CoroutineTask>;
  readonly #parts: Core;

  constructor(parts: Core) {
    this.#parts = parts;
    this.threads = new Tasks("thread", parts);
    this.coroutines = new Tasks("coroutine", parts);
  }

  /**
   * Starts work beside the process's own task. Fails with CLOSED when the process is ending, with EXHAUSTED when it has
   * too many threads.
   */
  spawnThread(pid: PID, intent: string, work: ThreadWork): Promise<TID> {
    return this.#create(pid, "SpawnThread", intent, (proc) => {
      const task = this.threads.add(proc, (tid) => new Task(tid, intent));
      task.start(() => work(this.#handle(proc, task)));
      return task;
    });
  }

  /**
   * Waits for a thread and returns its result or throws its error; repeatable until the reap. Fails with NOT_FOUND for an
   * unknown TID, with CANCELLED when the process ends first or must stop.
   */
  joinThread(pid: PID, tid: TID, options: WaitOptions = {}): Promise<unknown> {
    const proc = this.#parts.table.get(pid);
    const join = async (): Promise<unknown> => {
      const task = this.threads.get(proc, tid);
      return await this.#within(proc, options, `Thread ${tid} has not ended`, (signal) => task.join(signal));
    };
    return this.#parts.debug.call(proc, "JoinThread", { tid }, join, () => undefined);
  }

  /** The body begins with the first resume. Fails with CLOSED and EXHAUSTED as for threads. */
  spawnCoroutine(pid: PID, intent: string, body: CoroutineBody): Promise<CoID> {
    return this.#create(pid, "SpawnCoroutine", intent, (proc) =>
      this.coroutines.add(proc, (coid) => new CoroutineTask(coid, pid, intent, body)),
    );
  }

  /**
   * Passes a value in and runs the coroutine to its next yield or its end: then `done` with its result, or its error is
   * thrown. Fails with NOT_FOUND for an unknown CoID, INVALID while it runs, CLOSED after its end. A caller that gives up
   * (signal, TIMEOUT) cancels the coroutine.
   */
  resumeCoroutine(pid: PID, coid: CoID, value?: unknown, options: WaitOptions = {}): Promise<Resumed> {
    const proc = this.#parts.table.get(pid);
    const resume = async (): Promise<Resumed> => {
      const task = this.coroutines.get(proc, coid);
      options.signal?.throwIfAborted();
      const late = `Coroutine ${coid} has not yielded`;
      return await this.#within(proc, options, late, (signal) => task.resume(value, signal));
    };
    return this.#parts.debug.call(proc, "ResumeCoroutine", { coid }, resume, ({ done }) => ({ done }));
  }

  /** Makes a task, which is cancelled when the process must stop. Returns its id. */
  #create(pid: PID, syscall: string, intent: string, make: (proc: Process) => Task): Promise<number> {
    const proc = this.#parts.table.get(pid);
    const spawn = (): number => {
      assertRuns(proc);
      const task = make(proc);
      const ignore = onceAborted(proc.signal, () => task.cancel(proc.signal.reason));
      void task.ended.then(ignore);
      return task.id;
    };
    const args = { intent: intent.slice(0, INTENT_SHOWN) };
    return this.#parts.debug.call(proc, syscall, args, spawn);
  }

  /** The thread as its work sees it. */
  #handle(proc: Process, { id, intent, signal }: Task): Thread {
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
  const text = `A thread appends messages of role "user" or "assistant" without calls; this one has role "${role}" and ${tool_calls?.length ?? 0} calls.`;
  throw new SyscallError("INVALID", text);
}
