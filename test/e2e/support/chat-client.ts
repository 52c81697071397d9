import { expect } from "bun:test";
import type { ModelServer } from "../../support/model-server/server.ts";
import { until } from "../../support/until.ts";
import { Machine } from "./machine.ts";
import { RawClient } from "./wire.ts";

/** A stream event as the client got it. */
export interface Event {
  type?: string;
  payload: Record<string, unknown>;
}

/** A client that talks with runs over the wire, as a program of another language would. */
export class ChatClient implements Disposable {
  readonly events: Event[] = [];
  readonly #machine: Machine;
  readonly #open: RawClient[] = [];

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** One request on a connection of its own. Rejects when it is refused. */
  async ask(method: string, payload: object): Promise<Record<string, unknown>> {
    const client = await RawClient.connect(this.#machine.socket);
    try {
      return answerOf(await client.ask(method, this.#placed(payload)));
    } finally {
      client.destroy();
    }
  }

  /** A request whose answer is followed by events, which are collected until the client is closed. */
  async follow(method: string, payload: object): Promise<{ pid: number; uuid: string }> {
    const client = await RawClient.connect(this.#machine.socket);
    this.#open.push(client);
    const { pid, uuid } = answerOf(await client.ask(method, this.#placed(payload)));
    void this.#collect(client);
    return { pid: Number(pid), uuid: String(uuid) };
  }

  /** Resolves with the first event that fits, among all so far and to come. */
  async has(fits: (event: Event) => boolean, what: string): Promise<Event> {
    await until(() => this.events.some(fits), what);
    const found = this.events.find(fits);
    if (!found) throw new Error(what);
    return found;
  }

  /** The run waits for a message after this many turns of its user. */
  async waits(turns = 1): Promise<void> {
    await until(
      () => this.events.filter((event) => activityOf(event) === "input").length >= turns,
      `the run waits for the ${turns}. time`,
    );
  }

  /** What the model has said, in all steps. */
  get text(): string {
    return this.events.flatMap(({ type, payload }) => (type === "text_delta" ? [payload.text] : [])).join("");
  }

  /** Closes the streams: the client goes away. */
  leave(): void {
    for (const client of this.#open.splice(0)) client.destroy();
  }

  [Symbol.dispose](): void {
    this.leave();
  }

  async #collect(client: RawClient): Promise<void> {
    try {
      for (;;) {
        const { type, payload } = await client.line();
        this.events.push({ type, payload: asObject(payload) });
      }
    } catch {
      // The stream has ended.
    }
  }

  #placed(payload: object): object {
    return { cwd: this.#machine.project, env: this.#machine.env, ...payload };
  }
}

export function activityOf({ type, payload }: Event): unknown {
  if (type !== "progress" || payload.event !== "activity") return undefined;
  return asObject(payload.activity).kind;
}

function answerOf(line: Awaited<ReturnType<RawClient["ask"]>>): Record<string, unknown> {
  if (!line.ok) throw new Error(`${line.error?.code}: ${line.error?.message}`);
  return asObject(line.payload);
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** A machine with a daemon and a client of it. */
export class ChatMachine extends Machine {
  readonly client = new ChatClient(this);

  /** Starts the model, then the daemon. */
  async begin(...args: Parameters<Machine["model"]>): Promise<ModelServer> {
    const model = await this.model(...args);
    await this.daemon();
    return model;
  }

  async daemon(): Promise<void> {
    expect((await this.run(["daemon", "start"])).code).toBe(0);
  }

  /** Begins a chat, and waits for its first answer. */
  async chat(payload: object = {}): Promise<{ pid: number; uuid: string }> {
    const chat = await this.client.follow("spawn", { intent: "hello", chat: true, ...payload });
    await this.client.waits(1);
    return chat;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.client.leave();
    await super[Symbol.asyncDispose]();
  }
}
