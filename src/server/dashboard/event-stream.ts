/** Server-sent events for a page: the changes of all processes, or the events of a streaming method. */

import type { Peer } from "../connection/connection.ts";
import type { ProcFeed } from "../services.ts";

/** Bytes that wait for the page; beyond them the method waits. */
const MAX_UNREAD = 256 * 1024;

/** `work` gets a peer whose events the page reads at its own pace. After its end the page gets `eof`, or the error. */
export function eventStream(
  work: (peer: Peer) => Promise<void>,
  request: AbortSignal,
): ReadableStream<Uint8Array> {
  const left = new AbortController();
  const gone = AbortSignal.any([request, left.signal]);
  const encoder = new TextEncoder();
  let read: (() => void) | undefined;
  gone.addEventListener("abort", () => read?.());
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const write = (text: string): void => {
          if (!gone.aborted) controller.enqueue(encoder.encode(text));
        };
        const peer: Peer = {
          async send(line) {
            if ("ok" in line || line.type !== "run_event") return;
            const { n } = line.payload;
            write(`${n === null ? "" : `id: ${n}\n`}data: ${JSON.stringify(line.payload)}\n\n`);
            if ((controller.desiredSize ?? 0) > 0 || gone.aborted) return;
            await new Promise<void>((resolve) => {
              read = resolve;
            });
          },
          gone,
          watch: () => undefined,
        };
        work(peer)
          .then(
            () => write("event: eof\ndata: {}\n\n"),
            (thrown: unknown) => write(`event: failed\ndata: ${JSON.stringify(String(thrown))}\n\n`),
          )
          .finally(() => {
            if (!gone.aborted) controller.close();
          });
      },
      pull: () => read?.(),
      cancel: () => left.abort(),
    },
    { highWaterMark: MAX_UNREAD, size: (chunk) => chunk?.byteLength ?? 0 },
  );
}

/** A page that has not read this many bytes misses changes until it asks again. */
const MAX_UNREAD_CHANGES = 4 * 1024 ** 2;

export function changeStream(feed: ProcFeed, gone: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let leave = (): void => undefined;
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const close = (): void => {
          try {
            controller.close();
          } catch {
            // It was closed by its reader.
          }
        };
        const send = (text: string): void => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text));
          else leave();
        };
        send("retry: 1000\n\n");
        const watch = feed.watch({
          send: (change) => send(`id: ${change.number}\ndata: ${JSON.stringify(change)}\n\n`),
          close,
        });
        leave = () => {
          watch.end();
          close();
        };
        gone.addEventListener("abort", leave, { once: true });
      },
      cancel: () => leave(),
    },
    { highWaterMark: MAX_UNREAD_CHANGES, size: (chunk) => chunk?.byteLength ?? 0 },
  );
}
