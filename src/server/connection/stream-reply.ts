/** Where a streaming method sends its answer and its events. */

import type { StreamEvent } from "../../protocol/methods.ts";

export interface StreamReply<A> {
  /** Answers without a stream: the connection stays open for the next request. */
  answer(answer: A): Promise<void>;
  /** Accepts the request; from here on the connection belongs to the stream. */
  accept(answer: A): Promise<void>;
  send(event: StreamEvent): Promise<void>;
  readonly gone: AbortSignal;
}
