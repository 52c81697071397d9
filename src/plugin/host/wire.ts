/** The messages between the kernel's thread and a plugin's process, sent as structured clones. */

import { detailOf } from "../../lib/error-detail.ts";
import {
  type ChecklistItem,
  type Child,
  type Code,
  type Data,
  type ExecRequest,
  type FileStat,
  type OpenContext,
  type OpenFlag,
  type PromptPart,
  type Services,
  SyscallError,
  type SyscallErrorDetail,
} from "../index.ts";

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
  /** A mount has ended by itself. */
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

/** What each driver call is answered with. */
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

/** A position in a plugin's source. Line and column count from 1. */
export interface SourcePosition {
  file: string;
  line?: number;
  column?: number;
}

export interface WireError {
  /** Absent, as `detail` is, if the thrown value was no SyscallError. */
  code?: Code;
  detail?: Omit<SyscallErrorDetail, "cause">;
  name: string;
  message: string;
  stack?: string;
  place?: SourcePosition;
  cause?: WireError;
}

/** The limit of nested causes that are carried. */
const MAX_CAUSE_DEPTH = 5;

export function toWire(thrown: unknown, depth = 0): WireError {
  if (!isErrorLike(thrown))
    return { name: "", message: `${Bun.inspect(thrown)} was thrown, which is no Error` };
  const { name, message, stack } = thrown;
  const wire: WireError = { name: name ?? "", message, stack, place: placeOf(thrown) };
  if (thrown.cause !== undefined && depth < MAX_CAUSE_DEPTH) wire.cause = toWire(thrown.cause, depth + 1);
  if (!(thrown instanceof SyscallError)) return wire;
  const { cause: _, ...detail } = detailOf(thrown);
  return { ...wire, code: thrown.code, detail };
}

/** The thrown error as a SyscallError: DRIVER with the plugin's name if it was another error. */
export function fromWire(wire: WireError, plugin: string): SyscallError {
  if (wire.code === undefined) {
    return new SyscallError("DRIVER", `Plugin ${plugin}: ${described(wire)}`, { cause: plainError(wire) });
  }
  const { code, message, detail, cause } = wire;
  return new SyscallError(code, message, { ...detail, cause: cause && plainError(cause) });
}

/** The error on one line, with file and line if they are known. */
function described(wire: WireError): string {
  return wire.place ? `${errorText(wire)} (${placeText(wire.place)})` : errorText(wire);
}

/** The error on one line, without its position. */
export function errorText({ name, message }: WireError): string {
  return name && name !== "Error" && name !== "SyscallError" ? `${name}: ${message}` : message;
}

export function placeText({ file, line, column }: SourcePosition): string {
  return [file, line, column].filter((part) => part !== undefined).join(":");
}

function plainError(wire: WireError): Error {
  const cause = wire.cause && plainError(wire.cause);
  const error = new Error(wire.message, cause && { cause });
  if (wire.name) error.name = wire.name;
  if (wire.stack !== undefined) error.stack = wire.stack;
  return error;
}

/** Bun's BuildMessage and ResolveMessage are no Errors, but have a position. */
interface ErrorLike {
  name?: string;
  message: string;
  stack?: string;
  cause?: unknown;
  position?: { file: string; line: number; column: number } | null;
  errors?: unknown[];
}

function isErrorLike(thrown: unknown): thrown is ErrorLike {
  return (
    typeof thrown === "object" && thrown !== null && "message" in thrown && typeof thrown.message === "string"
  );
}

function placeOf(error: ErrorLike): SourcePosition | undefined {
  const first = error.errors?.find(isErrorLike);
  if (first) return placeOf(first);
  if (error.position)
    return { file: error.position.file, line: error.position.line, column: error.position.column };
  for (const line of error.stack?.split("\n") ?? []) {
    const frame = /\(?(?:file:\/\/)?(\/[^()]+?):(\d+):(\d+)\)?$/.exec(line);
    if (!frame?.[1] || frame[1].startsWith("/$bunfs/") || frame[1].startsWith(import.meta.dir)) continue;
    return { file: frame[1], line: Number(frame[2]), column: Number(frame[3]) };
  }
  return undefined;
}

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

  #take(id: number): { answer(value: unknown): void; fail(error: SyscallError): void } | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }
}
