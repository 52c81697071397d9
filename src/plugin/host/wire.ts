/** The messages between the kernel's thread and a plugin's process, sent as structured clones. */

import type {
  ChecklistItem,
  Child,
  Data,
  ExecRequest,
  FileStat,
  OpenContext,
  OpenFlag,
  PromptPart,
  Services,
  SyscallError,
} from "../index.ts";
import type { WireError } from "./wire-error.ts";

export type ToProgram =
  /** `code`: the plugin as one module, as static-check has read it. */
  | { t: "load"; name: string; code: string }
  | { t: "call"; id: number; call: DriverCall }
  /** The call's signal has fired. */
  | { t: "abort"; id: number; error: WireError }
  | { t: "answer"; id: number; value?: unknown; error?: WireError }
  | { t: "ping" };

export type ToHost =
  | { t: "loaded"; sketch: unknown }
  | { t: "failed"; error: WireError }
  | { t: "answer"; id: number; value?: unknown; error?: WireError }
  | { t: "call"; id: number; file: number; call: ServiceCall }
  | { t: "note"; file: number; note: ContextEvent }
  /** The devices of a mount have changed. A sketch, as in the answer to `mount`. */
  | { t: "changed"; mount: number; sketch: unknown }
  | { t: "ended"; mount: number; error: WireError }
  /** Written to its console. */
  | { t: "said"; text: string }
  /** An uncaught error; the process ends. */
  | { t: "crash"; error: WireError }
  /** The bytes of its heap. */
  | { t: "pong" };

/** A call of the kernel to a driver. The kernel's side numbers the files. */
export type DriverCall =
  | {
      m: "open";
      file: number;
      /** The mount that its device belongs to. */
      mount?: number;
      device: string;
      subpath: string;
      flags: OpenFlag;
      context: WireContext;
    }
  | { m: "write"; file: number; data: Data }
  | { m: "read"; file: number; max: number }
  | { m: "close"; file: number }
  | { m: "stat"; file: number }
  | { m: "detect"; device: string; env: Record<string, string> }
  /** Mounts and files share one sequence of numbers. */
  | { m: "mount"; mount: number; config: object; context: WireContext }
  | { m: "unmount"; mount: number }
  /** `file`: the number of the context. */
  | { m: "prompt"; file: number; context: WireContext }
  | { m: "filesChanged"; file: number; context: WireContext; files: string[] }
  | { m: "dispose" };

/** The answer type of a call, from `Answers` as a table of functions. */
export type Answer<Answers, M extends keyof Answers> = Answers[M] extends () => infer T ? T : never;

export interface DriverAnswers {
  open(): void;
  write(): void;
  read(): Data;
  close(): void;
  stat(): FileStat;
  detect(): { model: string } | null;
  /** What was opened, drawn. */
  mount(): unknown;
  unmount(): void;
  prompt(): PromptPart | null;
  filesChanged(): string | null;
  dispose(): void;
}

/** The methods that a driver in a process calls in the kernel's thread: of its context, its programs and its services. */
export interface RemoteMethods
  extends Required<
    Pick<Services, "store" | "tools" | "history" | "search" | "schedule" | "ask" | "llm" | "units">
  > {
  context: Pick<OpenContext, "spill" | "inbox" | "changing" | "access" | "connect" | "secret">;
  child: Pick<Child, "write" | "end" | "read" | "exited" | "kill">;
}

export type RemoteOwner = keyof RemoteMethods;

/** All of their names: no other method can be called. */
export const REMOTE_METHODS: { readonly [O in RemoteOwner]: Readonly<Record<keyof RemoteMethods[O], true>> } =
  {
    context: { spill: true, inbox: true, changing: true, access: true, connect: true, secret: true },
    child: { write: true, end: true, read: true, exited: true, kill: true },
    store: { read: true, replace: true, remove: true, append: true, path: true, lines: true },
    tools: { list: true, call: true },
    history: { runs: true, steps: true },
    search: { sources: true, put: true, find: true },
    schedule: {
      add: true,
      list: true,
      remove: true,
      enable: true,
      disable: true,
      run: true,
      history: true,
      next: true,
    },
    ask: { ask: true },
    llm: { ask: true },
    units: {
      start: true,
      move: true,
      register: true,
      update: true,
      killed: true,
      list: true,
      stop: true,
      output: true,
    },
  };

/** What a driver asks of the system, through the context of one open file. */
export type ServiceCall =
  | { m: "exec"; request: ExecRequest }
  /** `child`: the number of the program, for a method of it. */
  | { m: "method"; of: RemoteOwner; method: string; args: unknown[]; child?: number };

export interface ServiceAnswers {
  exec(): { child: number; pid: number; reused: boolean };
  method(): unknown;
}

export type ContextEvent =
  | { n: "progress"; text: string }
  | { n: "output"; text: string; skipped: number }
  | { n: "checklist"; items: readonly ChecklistItem[] }
  | { n: "changed"; file: string }
  | { n: "log"; level: "debug" | "info" | "warn"; text: string };

/** The data of an OpenContext, and the names of its services. */
export interface WireContext
  extends Pick<
    OpenContext,
    "process" | "project" | "cwd" | "folders" | "guarded" | "env" | "network" | "policy" | "call" | "config"
  > {
  services: (keyof Services)[];
}

/** All services that a plugin may name in `needs`. */
export const SERVICES = [
  "exec",
  "store",
  "secret",
  "tools",
  "history",
  "search",
  "schedule",
  "ask",
  "llm",
  "units",
] as const satisfies readonly (keyof Services)[];

/** `Answers`: the answer type of each call. */
export class PendingCalls<Answers> {
  readonly #waiting = new Map<number, { answer(value: unknown): void; fail(error: SyscallError): void }>();
  #next = 1;

  begin<M extends keyof Answers>(): { id: number; answer: Promise<Answer<Answers, M>> } {
    const id = this.#next++;
    const answer = new Promise<Answer<Answers, M>>((resolve, fail) => {
      // Both sides belong to this program and answer by `Answers`. A driver's values are checked in the process.
      this.#waiting.set(id, { answer: (value) => resolve(value as Answer<Answers, M>), fail });
    });
    return { id, answer };
  }

  /** Ignores the answer to a call that no longer waits. */
  answer(id: number, value: unknown): void {
    this.#take(id)?.answer(value);
  }

  fail(id: number, error: SyscallError): void {
    this.#take(id)?.fail(error);
  }

  failAll(error: SyscallError): void {
    for (const id of [...this.#waiting.keys()]) this.fail(id, error);
  }

  get size(): number {
    return this.#waiting.size;
  }

  #take(id: number) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}
