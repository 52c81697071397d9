/** Reads a fetched page in a Worker of its own, which ends with it: no page can block or break the daemon. */

import { type Code, SyscallError } from "rnix/plugin";
import type { FetchedPage } from "./fetch-page.ts";
import { pageProgram } from "./page-program.ts";
import type { PageText } from "./page-text.ts";

export type FromPageWorker = { page: PageText } | { code: Code; message: string };

/** Fails with the signal's reason once it fires; the call's deadline is the page's, too. */
export async function readPage(page: FetchedPage, signal: AbortSignal): Promise<PageText> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<PageText>();
  const worker = new Worker(await pageProgram(), { env: {}, name: "plugin web, page" });
  const abort = (): void => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  worker.addEventListener("message", ({ data }: MessageEvent<FromPageWorker>) => {
    if ("page" in data) resolve(data.page);
    else reject(new SyscallError(data.code, data.message));
  });
  const broken = (why: string): void =>
    reject(new SyscallError("INVALID", `${page.url} can't be read as ${page.type || "a page"}: ${why}`));
  worker.addEventListener("error", ({ message }) => broken(message));
  worker.addEventListener("close", () => broken("its reader ended"));
  try {
    worker.postMessage(page);
    return await promise;
  } finally {
    signal.removeEventListener("abort", abort);
    worker.terminate();
  }
}
