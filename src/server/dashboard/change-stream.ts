/** Sends the changes of all processes to a page, as server-sent events. */

import type { ProcFeed } from "../services.ts";

/** A page that has not read this many bytes misses changes until it asks again. */
const MAX_UNREAD = 4 * 1024 ** 2;

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
    { highWaterMark: MAX_UNREAD, size: (chunk) => chunk?.byteLength ?? 0 },
  );
}
