/** The program of a Worker that searches. */

import { systemError } from "../errors.ts";
import { type FromWorker, search, type ToWorker } from "./search.ts";

/** The entry of a search Worker. build.ts puts it into the executable beside the plugins' own Worker. */

declare const self: Worker;

const waiting = new Map<number, (allowed: boolean[]) => void>();
let lastId = 0;

function post(message: FromWorker): void {
  self.postMessage(message);
}

function allows(paths: string[]): Promise<boolean[]> {
  const id = ++lastId;
  const { promise, resolve } = Promise.withResolvers<boolean[]>();
  waiting.set(id, resolve);
  post({ t: "ask", id, paths });
  return promise;
}

self.onmessage = async ({ data }: MessageEvent<ToWorker>) => {
  if (data.t === "verdict") {
    waiting.get(data.id)?.(data.allowed);
    waiting.delete(data.id);
    return;
  }
  try {
    post({ t: "done", answer: await search(data.request, allows) });
  } catch (thrown) {
    const { code, message } = systemError(thrown, "search");
    post({ t: "failed", code, message });
  }
};
