/** Defines methods: with one answer, or with a stream. */

import type { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { StreamEvent } from "../../protocol/methods.ts";
import type { Caller, Peer } from "../connection/connection.ts";
import type { Services } from "../services.ts";

/** One call of a method for a request. */
export interface Call {
  payload: unknown;
  services: Services;
  caller: Caller;
  peer: Peer;
  id: string | number | undefined;
  /** Gives the connection to a stream. */
  take(): void;
  /** A stream has the connection. */
  accepted: boolean;
}

/** A method that looks up, checks, acts and returns its answer. */
export interface PlainDefinition<P, A> {
  readonly streaming: false;
  /** The connection is closed after its answer. */
  readonly closes?: boolean;
  handle(payload: P, services: Services, caller: Caller): A | Promise<A>;
  run(call: Call): Promise<void>;
}

/**
 * A streaming method. It may throw until it has accepted; after that it only sends, and the connection ends with it. It
 * may return one answer instead, like a plain method.
 */
export interface StreamDefinition<P, A> {
  readonly streaming: true;
  readonly closes?: boolean;
  handle(payload: P, services: Services, out: StreamReply<A>, caller: Caller): Promise<void>;
  run(call: Call): Promise<void>;
}

/** Defines a method with one answer. `payload` makes its schema, at the first call. */
export function method<P, A>(o: {
  payload: () => z.ZodType<P>;
  closes?: boolean;
  /** `caller.gone` aborts if the client disconnects meanwhile. */
  watchesClient?: boolean;
  handle: PlainDefinition<P, A>["handle"];
}): PlainDefinition<P, A> {
  const check = checker(o.payload);
  return {
    streaming: false,
    closes: o.closes,
    handle: o.handle,
    async run({ payload, services, caller, peer, id }) {
      if (o.watchesClient) peer.watch();
      const answer = await o.handle(check(payload), services, caller);
      await peer.send({ ok: true, payload: answer, ...(id !== undefined && { id }) });
    },
  };
}

export function streamMethod<P, A>(o: {
  payload: () => z.ZodType<P>;
  handle: StreamDefinition<P, A>["handle"];
}): StreamDefinition<P, A> {
  const check = checker(o.payload);
  return {
    streaming: true,
    handle: o.handle,
    async run(call) {
      const { payload, peer, id, services, caller } = call;
      const reply = (answer: A): Promise<void> =>
        peer.send({ ok: true, payload: answer, ...(id !== undefined && { id }) });
      const out: StreamReply<A> = {
        answer: reply,
        accept(answer) {
          call.accepted = true;
          call.take();
          return reply(answer);
        },
        send: (event) => peer.send(event),
        gone: peer.gone,
      };
      await o.handle(check(payload), services, out, caller);
    },
  };
}

/** Returns the validated payload. The schema is built at the first call and cached. */
function checker<P>(build: () => z.ZodType<P>): (payload: unknown) => P {
  let schema: z.ZodType<P> | undefined;
  return (payload) => {
    schema ??= build();
    const result = schema.safeParse(payload);
    if (result.success) return result.data;
    throw new SyscallError("INVALID", describeIssue(result.error, payload));
  };
}

/** Describes the first issue that a schema found: `max_steps: expected …; got -1.` */
export function describeIssue(error: z.ZodError, value: unknown): string {
  const [issue] = error.issues;
  if (!issue) return "The request has the wrong form.";
  const field = issue.path.map(String).join(".");
  const got = issue.path.reduce<unknown>(step, value);
  return `${field || "The request"}: ${issue.message.replace(/\.$/, "")}; got ${shown(got)}.`;
}

function step(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = written(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** JSON can be parsed at a depth at which it can't be written. */
function written(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return "something nested too deeply to show";
    throw error;
  }
}

export interface StreamReply<A> {
  /** Answers without a stream: the connection stays open for the next request. */
  answer(answer: A): Promise<void>;
  /** Accepts the request; from here on the connection belongs to the stream. */
  accept(answer: A): Promise<void>;
  send(event: StreamEvent): Promise<void>;
  readonly gone: AbortSignal;
}
