/** Web search: one interface, a table of engines, and the one that the settings or a key choose. */

import { type OpenContext, SyscallError, untrustedBlocks } from "rnix/plugin";
import { z } from "zod";
import { issueText } from "../_lib/issue-text.ts";
import { proxyFor } from "../_lib/proxy.ts";
import { readBody, statusError } from "./fetch-page.ts";
import type { WebSettings } from "./tools.ts";

interface SearchRequest {
  query: string;
  allowed_domains?: readonly string[];
  blocked_domains?: readonly string[];
  max_results?: number;
}

interface Hit {
  title: string;
  url: string;
  text: string;
}

interface Engine {
  title: string;
  /** The variable of its key. */
  key?: string;
  url?: string;
  /** What is sent to the engine at `url`. */
  request(query: Required<SearchRequest>, url: string, key: string): { url: string; init: RequestInit };
  answer: z.ZodType<Hit[]>;
}

const Text = z
  .string()
  .nullish()
  .transform((text) => text ?? "");

/** The form that SearXNG and Tavily share. */
const Results = z
  .object({ results: z.array(z.object({ title: Text, url: z.string(), content: Text })) })
  .transform(({ results }) => results.map(({ title, url, content }) => ({ title, url, text: content })));

const ENGINES: Readonly<Record<"searxng" | "brave" | "tavily", Engine>> = {
  // https://docs.searxng.org/dev/search_api.html
  searxng: {
    title: "SearXNG",
    request: (query, url) => ({
      url: withQuery(`${url.replace(/\/$/, "")}/search`, { q: withSites(query), format: "json" }),
      init: {},
    }),
    answer: Results,
  },
  // https://api-dashboard.search.brave.com/app/documentation/web-search
  brave: {
    title: "Brave",
    key: "BRAVE_API_KEY",
    url: "https://api.search.brave.com/res/v1/web/search",
    request: (query, url, key) => ({
      url: withQuery(url, { q: withSites(query), count: `${query.max_results}`, text_decorations: "false" }),
      init: { headers: { accept: "application/json", "x-subscription-token": key } },
    }),
    answer: z
      .object({
        web: z
          .object({ results: z.array(z.object({ title: Text, url: z.string(), description: Text })) })
          .nullish(),
      })
      .transform(({ web }) =>
        (web?.results ?? []).map(({ title, url, description }) => ({ title, url, text: description })),
      ),
  },
  // https://docs.tavily.com/documentation/api-reference/endpoint/search
  tavily: {
    title: "Tavily",
    key: "TAVILY_API_KEY",
    url: "https://api.tavily.com/search",
    request: (
      { query, max_results, allowed_domains: include_domains, blocked_domains: exclude_domains },
      url,
      key,
    ) => ({
      url,
      init: {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
        body: JSON.stringify({ query, max_results, include_domains, exclude_domains }),
      },
    }),
    answer: Results,
  },
};
type EngineName = keyof typeof ENGINES;

const DEFAULT_RESULTS = 8;
const MAX_ANSWER = 4 * 1024 ** 2;
const MAX_EXCERPT = 600;

export async function search(
  request: SearchRequest,
  settings: WebSettings,
  context: OpenContext,
  signal: AbortSignal,
): Promise<string> {
  const query = { allowed_domains: [], blocked_domains: [], max_results: DEFAULT_RESULTS, ...request };
  const { engine, url, key } = await chosen(settings, context);
  context.progress(`searching with ${engine.title}`);
  const hits = engine.answer.safeParse(await asked(engine, engine.request(query, url, key), context, signal));
  if (!hits.success) {
    const what = issueText(hits.error, "answer");
    const message = `${engine.title} at ${url} answered in a form that is not known: ${what}.`;
    throw new SyscallError("DRIVER", message);
  }
  const found = hits.data.filter((hit) => isWanted(hit, query)).slice(0, query.max_results);
  if (found.length === 0) return `${engine.title} found nothing for "${query.query}".`;
  const name = `results of ${engine.title} for "${query.query}"`;
  return untrustedBlocks([{ name, text: found.map(hitText).join("\n\n") }]);
}

/** The engine of the settings, else SearXNG if it has an address, else the first engine with a key. */
async function chosen(
  { search: { engine: named, url } = {} }: WebSettings,
  { secret }: OpenContext,
): Promise<{ engine: Engine; url: string; key: string }> {
  const names: EngineName[] =
    named !== undefined ? [named] : url !== undefined ? ["searxng"] : ["tavily", "brave"];
  for (const name of names) {
    const engine = ENGINES[name];
    const address = url ?? engine.url;
    const key = engine.key === undefined ? "" : await secret?.(engine.key).catch(() => undefined);
    if (address !== undefined && key !== undefined) return { engine, url: address, key };
  }
  throw new SyscallError("UNAVAILABLE", `${missing(named)} ${HOW}`);
}

function missing(named: EngineName | undefined): string {
  if (named === undefined) return "No search engine is configured.";
  const { title, key } = ENGINES[named];
  return key === undefined ? `${title} has no address.` : `${title} has no key: ${key} is not set.`;
}

const HOW =
  "The user can set TAVILY_API_KEY or BRAVE_API_KEY in ~/.config/rnix/env, or name a SearXNG server in ~/.config/rnix/config.yaml: plugins: {web: {search: {engine: searxng, url: https://…}}}.";

/** The JSON answer of the engine. The user configured its address, so it may be any. */
async function asked(
  { title }: Engine,
  { url, init }: { url: string; init: RequestInit },
  { env, connect }: OpenContext,
  signal: AbortSignal,
): Promise<unknown> {
  await connect(url);
  const proxy = proxyFor(url, env);
  const { origin } = new URL(url);
  let text: string;
  try {
    const response = await fetch(url, { ...init, signal, redirect: "error", ...(proxy && { proxy }) });
    if (!response.ok) throw refused(title, origin, response);
    const { body, truncated } = await readBody(response, MAX_ANSWER);
    if (truncated) throw new SyscallError("DRIVER", `${title} at ${origin} answered with more than 4 MiB.`);
    text = new TextDecoder().decode(body);
  } catch (thrown) {
    signal.throwIfAborted();
    if (thrown instanceof SyscallError) throw thrown;
    throw new SyscallError("UNAVAILABLE", `${title} at ${origin} can't be reached.`, { cause: thrown });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `${title} at ${origin} answered with something that is not JSON.`;
    throw new SyscallError("DRIVER", message, { cause });
  }
}

function refused(title: string, origin: string, response: Response): SyscallError {
  const { status } = response;
  const why =
    title === "SearXNG" ? "Its settings.yml must list json under search.formats." : "Check its key.";
  const hint = status === 401 || status === 403 ? ` ${why}` : "";
  return statusError(`${title} at ${origin} answered with status ${status}.${hint}`, response);
}

function withQuery(address: string, query: Readonly<Record<string, string>>): string {
  const url = new URL(address);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url.href;
}

/** Domains as the engines' own operators, so that they don't fill the answer with other ones. */
function withSites({ query, allowed_domains, blocked_domains }: Required<SearchRequest>): string {
  const only = allowed_domains.map((domain) => `site:${domain}`).join(" OR ");
  const not = blocked_domains.map((domain) => `-site:${domain}`);
  return [query, only, ...not].filter((part) => part !== "").join(" ");
}

/** An engine may know no operators. */
function isWanted({ url }: Hit, { allowed_domains, blocked_domains }: Required<SearchRequest>): boolean {
  const host = URL.parse(url)?.hostname;
  if (host === undefined) return false;
  const isOf = (domain: string): boolean => {
    const name = domain.toLowerCase().replace(/^\*?\./, "");
    return host === name || host.endsWith(`.${name}`);
  };
  return (allowed_domains.length === 0 || allowed_domains.some(isOf)) && !blocked_domains.some(isOf);
}

/** Some engines mark words with tags. */
function hitText({ title, url, text }: Hit, at: number): string {
  const plain = (html: string): string => html.replaceAll(/<\/?\w+[^>]*>/g, "").trim();
  return `${at + 1}. ${plain(title)}\n${url}\n${plain(text).slice(0, MAX_EXCERPT)}`.trim();
}
