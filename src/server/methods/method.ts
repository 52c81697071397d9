/** Defines methods: with one answer, or with a stream. */

import type { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { Caller, Peer } from "../connection/connection.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import type { Services } from "../services.ts";
import { describeIssue } from "./shared/describe-issue.ts";

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
