/** The program of a Worker that makes text of one page. build.ts puts it into the executable beside the other Workers. */

import { SyscallError } from "rnix/plugin";
import type { FetchedPage } from "./fetch-page.ts";
import type { FromPageWorker } from "./page-reader.ts";
import { pageText } from "./page-text.ts";

declare const self: Worker;

self.onmessage = async ({ data }: MessageEvent<FetchedPage>) => {
  self.postMessage(await answerTo(data));
};

async function answerTo(page: FetchedPage): Promise<FromPageWorker> {
  try {
    return { page: await pageText(page) };
  } catch (thrown) {
    if (thrown instanceof SyscallError) return { code: thrown.code, message: thrown.message };
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    return { code: "INVALID", message: `${page.url} can't be read as ${page.type || "a page"}: ${why}` };
  }
}
