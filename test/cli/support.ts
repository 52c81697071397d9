import type { ConnectOptions, Input, Io, Output, Session, Terminal, Wire } from "../../src/cli/io.ts";
import type { Stream } from "../../src/client/client.ts";
import type { SyscallError } from "../../src/plugin/index.ts";
import type { CompletePayload, Receipt, StreamEvent } from "../../src/protocol/methods.ts";
import type {
  Answers,
  Method,
  Payload,
  PlainMethod,
  StreamingMethod,
} from "../../src/server/methods/method-table.ts";

export class FakeOutput implements Output {
  text = "";
  closed = false;
  readonly isTTY: boolean;
  readonly columns: number;
  constructor(isTTY = false, columns = 80) {
    this.isTTY = isTTY;
    this.columns = columns;
  }
  write(text: string): void {
    this.text += text;
  }
  writeBytes(bytes: Uint8Array): void {
    this.text += `<${bytes.length} bytes>`;
  }
  async drained(): Promise<void> {}
}

/** What a fake server answers: payloads by method, events for the streams. A SyscallError is a refusal. */
interface Script {
  answers?: { [M in Method]?: Answers[M] | SyscallError };
  events?: (StreamEvent | Promise<StreamEvent>)[];
  /** No daemon runs: null with `onlyRunning`. */
  down?: boolean;
}

export interface FakeOptions extends Script {
  env?: Record<string, string>;
  cwd?: string;
  stdin?: Input;
  stdoutTTY?: boolean;
  columns?: number;
  stderrTTY?: boolean;
  terminal?: Terminal;
}

interface Asked {
  method: Method;
  payload: unknown;
}

/** A command's outside without an outside: its texts, what it asked the server, its timers and signals. */
export class FakeIo implements Io {
  readonly env: Record<string, string | undefined>;
  readonly cwd: string;
  readonly stdin: Input;
  readonly stdout: FakeOutput;
  readonly stderr: FakeOutput;
  readonly asked: Asked[] = [];
  readonly sessions: ConnectOptions[] = [];
  readonly timers: { ms: number; fire: () => void }[] = [];
  openSessions = 0;
  readonly #script: FakeOptions;
  readonly #handlers = new Map<string, Set<() => void>>();
  readonly #onTimer: (() => void)[] = [];
  readonly #onAsked: { method: Method; seen: () => void }[] = [];

  constructor(o: FakeOptions = {}) {
    this.env = o.env ?? {};
    this.cwd = o.cwd ?? import.meta.dir;
    this.stdin = o.stdin ?? emptyInput;
    this.stdout = new FakeOutput(o.stdoutTTY, o.columns);
    this.stderr = new FakeOutput(o.stderrTTY);
    this.#script = o;
  }

  terminal(): Terminal | null {
    return this.#script.terminal ?? null;
  }

  timer(ms: number, fire: () => void): { cancel(): void } {
    const timer = { ms, fire };
    this.timers.push(timer);
    for (const seen of this.#onTimer.splice(0)) seen();
    return { cancel: () => void this.timers.splice(this.timers.indexOf(timer), 1) };
  }

  onSignal(name: "SIGINT" | "SIGTERM", f: () => void): () => void {
    const handlers = this.#handlers.get(name) ?? new Set();
    this.#handlers.set(name, handlers.add(f));
    return () => handlers.delete(f);
  }

  signal(name: "SIGINT" | "SIGTERM"): void {
    for (const handler of this.#handlers.get(name) ?? []) handler();
  }

  get listening(): number {
    return [...this.#handlers.values()].reduce((sum, handlers) => sum + handlers.size, 0);
  }

  async session(o: ConnectOptions = {}): Promise<Session | null> {
    this.sessions.push(o);
    if (this.#script.down && o.onlyRunning) return null;
    this.openSessions++;
    return {
      connect: async () => this.#wire(),
      close: async () => {
        this.openSessions--;
      },
    };
  }

  /** Resolves when the server is asked for this. */
  whenAsked(method: Method): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onAsked.push({ method, seen: resolve });
    return promise;
  }

  /** Resolves when something is waited for. */
  whenTimer(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onTimer.push(resolve);
    return promise;
  }

  /** What the server was asked for by this method. */
  payloads<M extends Method>(method: M): Payload<M>[] {
    return this.asked.filter((asked) => asked.method === method).map(({ payload }) => payload as Payload<M>);
  }

  #wire(): Wire {
    const answer = <M extends Method>(method: M, payload: unknown) => this.#answer(method, payload);
    const events = this.#script.events ?? [];
    return {
      async request<M extends PlainMethod>(method: M, payload: Payload<M>): Promise<Answers[M]> {
        return answer(method, payload);
      },
      async open<M extends StreamingMethod>(method: M, payload: Payload<M>): Promise<Stream<M>> {
        return {
          answer: answer(method, payload),
          close: () => undefined,
          async *[Symbol.asyncIterator]() {
            for (const event of events) yield await event;
          },
        };
      },
      close: () => undefined,
    };
  }

  #answer<M extends Method>(method: M, payload: unknown): Answers[M] {
    this.asked.push({ method, payload });
    for (const { seen } of this.#onAsked.filter((waiting) => waiting.method === method)) seen();
    const answer = new Map<string, unknown>(Object.entries(this.#script.answers ?? {})).get(method);
    if (answer === undefined) throw new Error(`the test has no answer for ${method}`);
    if (answer instanceof Error) throw answer;
    return answer as Answers[M];
  }
}

const emptyInput: Input = { kind: "none", read: async () => null };

export const REF = { pid: 7, uuid: "01990000-0000-7000-8000-000000000007" };

export function receipt(o: Partial<Receipt> = {}): Receipt {
  return {
    ...REF,
    agent: "default",
    provider: "openai",
    model: "m",
    exit_code: 0,
    taint: null,
    exit_reason: "completed",
    suspended: null,
    result: "The answer.",
    partial: false,
    output: null,
    steps: 2,
    tool_calls: 1,
    tokens_used: 1234,
    usage: { input_tokens: 1100, output_tokens: 134, cached_tokens: 0 },
    cost_usd: null,
    elapsed_ms: 2100,
    notices: [],
    checks: [],
    sandbox: "none",
    program_limits: "none",
    base: null,
    files_changed: [],
    files_changed_complete: true,
    children: [],
    error: null,
    ...o,
  };
}

export function complete(o: Partial<Receipt> = {}): { type: "complete"; payload: CompletePayload } {
  return { type: "complete", payload: { event: "complete", ...receipt(o) } };
}

export const SPAWNED: StreamEvent = {
  type: "progress",
  payload: {
    event: "spawn",
    ...REF,
    intent: "do it",
    provider: "openai",
    model: "m",
    because: "OPENAI_API_KEY",
    agent: "default",
    chat: false,
    mode: "off",
    max_steps: 100,
    context_window: null,
    started_at_ms: 0,
    elapsed_ms: 0,
  },
};

export function step(n: number): StreamEvent {
  return {
    type: "progress",
    payload: {
      event: "step",
      ...REF,
      step: n,
      total: 100,
      tokens_used: 0,
      cost_usd: null,
      context_tokens: null,
      context_window: null,
    },
  };
}

export function delta(n: number, text: string): StreamEvent {
  return { type: "text_delta", payload: { ...REF, step: n, text } };
}

export function entry(n: number, kind: "thought" | "text", text: string): StreamEvent {
  return { type: "log_entry", payload: { ts: "2026-01-01T00:00:00Z", step: n, kind, text } };
}

/** A call of Bash in the log: its start, and its end with this result. */
export function bash(step: number, command: string, result: string): StreamEvent[] {
  const ts = "2026-01-01T00:00:00Z";
  const running = { id: command, name: "Bash", path: "/dev/shell", input: { command }, started_at: ts };
  const none = { result: null, error: null, error_code: null, duration_ms: null };
  const call = { ...running, ...none, state: "running" as const };
  const ended = { ...call, state: "done" as const, result, duration_ms: 1 };
  return [
    { type: "log_entry", payload: { ts, step, kind: "tool", text: command, call } },
    { type: "log_entry", payload: { ts, step, kind: "result", text: result, call: ended } },
  ];
}
