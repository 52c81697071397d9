/** The operations that are written to /dev/web. */

import { type OpenContext, SyscallError, untrustedBlocks } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { answerRequest, operation } from "../_lib/operations.ts";
import { fetchPage, type Network } from "./fetch-page.ts";
import { readPage } from "./page-reader.ts";
import type { PageText } from "./page-text.ts";
import { systemResolve } from "./public-address.ts";
import { search } from "./search.ts";
import { SETTINGS, WEB_FETCH, WEB_SEARCH, type WebSettings } from "./tools.ts";

const MAX_AGE_MS = 15 * 60_000;
const MAX_PAGES = 100;
/** Of all texts together, in characters. */
const MAX_TEXT = 8 * 1024 ** 2;

interface CachedPage extends PageText {
  /** The address that answered. */
  url: string;
  truncated: boolean;
}

/**
 * Of all runs of this daemon, in the order of their arrival. A project's pages are its own: what it may reach is a matter
 * of its settings.
 */
const cache = new Map<string, { page: CachedPage; at: number }>();

function cached(key: string): CachedPage | undefined {
  const { page, at = 0 } = cache.get(key) ?? {};
  return performance.now() - at < MAX_AGE_MS ? page : undefined;
}

function store(key: string, page: CachedPage): void {
  cache.delete(key);
  cache.set(key, { page, at: performance.now() });
  let length = cache.values().reduce((sum, { page }) => sum + page.text.length, 0);
  for (const [oldest, { page }] of cache) {
    if (cache.size <= MAX_PAGES && length <= MAX_TEXT) break;
    length -= page.text.length;
    cache.delete(oldest);
  }
}

/** Opens /dev/web, which answers `{"op": "web_fetch" | "web_search", …}`. */
export function openWeb(subpath: string, context: OpenContext): AnswerFile {
  if (subpath !== "")
    throw new SyscallError("NOT_FOUND", `/dev/web has no ${subpath}. Write a request to /dev/web.`);
  return new AnswerFile({
    device: "/dev/web",
    answer: async (text, signal) => {
      const settings = checkedInput({ name: "plugins.web", input: SETTINGS }, context.config ?? {});
      return await answerRequest("/dev/web", text, [
        operation(WEB_FETCH, (input) => webFetch(input, settings, context, signal)),
        operation(WEB_SEARCH, (input) => search(input, settings, context, signal)),
      ]);
    },
  });
}

async function webFetch(
  { url, prompt }: { url: string; prompt?: string },
  { addresses = [] }: WebSettings,
  context: OpenContext,
  signal: AbortSignal,
): Promise<string> {
  const connect: Network["connect"] = (to) => context.connect(to);
  const network: Network = { env: context.env, addresses, resolve: systemResolve, connect, signal };
  const key = JSON.stringify([context.project.id, addresses, context.network, url]);
  const known = cached(key);
  const page = known ?? (await loaded(url, network, context));
  if (typeof page === "string") return page;
  if (page !== known) store(key, page);
  return prompt === undefined ? asData(page) : await answered(prompt, page, context);
}

/** The page, or where its redirect leads. */
async function loaded(url: string, network: Network, context: OpenContext): Promise<CachedPage | string> {
  context.progress(`fetching ${url}`);
  const fetched = await fetchPage(url, network);
  if ("to" in fetched)
    return `${url} redirects to another host. If you want that page, call WebFetch with its address: ${fetched.to}`;
  const { title, text } = await readPage(fetched, network.signal);
  return { url: fetched.url, truncated: fetched.truncated, title, text };
}

function asData({ url, title, text, truncated }: CachedPage): string {
  const head = title === "" ? "" : `# ${title}\n\n`;
  const rest = truncated ? "\n\n[The page is longer than 10 MiB: the rest was not fetched.]" : "";
  const shown = text.trim() === "" ? "[The page has no text.]" : head + text + rest;
  return untrustedBlocks([{ name: url, text: shown }]);
}

/** About 30,000 tokens: enough for most pages, and a known price. */
const MAX_ASKED = 120_000;
const MAX_ANSWER_TOKENS = 1_500;
const SYSTEM =
  "You answer a question about one document for another model. Use only the document. Answer briefly, with exact names, numbers and code from it. If the document does not contain the answer, answer that.";

async function answered(question: string, page: CachedPage, context: OpenContext): Promise<string> {
  const { llm } = context;
  if (llm === undefined)
    throw new SyscallError("UNAVAILABLE", "There is no model here. Call WebFetch without prompt.");
  context.progress(`reading ${page.url}`);
  const text = page.text.slice(0, MAX_ASKED);
  const isCut = text.length < page.text.length;
  const rest = isCut ? `\n\n[Only the first ${MAX_ASKED} characters of the page are shown.]` : "";
  const prompt = `${asData({ ...page, text: text + rest })}\n\nThe question: ${question}`;
  const reply = await llm.ask({ prompt, system: SYSTEM, max_output: MAX_ANSWER_TOKENS });
  // A page can put words into the mouth of the model that read it.
  return untrustedBlocks([{ name: `${page.url}, as a model read it`, text: reply.text }]);
}
