/** The definitions of the tools WebFetch and WebSearch, and the settings of the plugin. */

import type { FromSchema, ToolDef } from "rnix/plugin";

/** A page may redirect on its own host a few times, and a slow server may answer late. */
const TIMEOUT_MS = 60_000;
const DOMAINS = { type: "array", items: { type: "string", minLength: 1 }, maxItems: 20 } as const;

export const WEB_FETCH = {
  name: "WebFetch",
  op: "web_fetch",
  defer: true,
  description:
    "Read a web page, JSON, text or PDF by its URL, as Markdown or text. With `prompt`, a model reads it and only its answer is returned.",
  input: {
    type: "object",
    properties: {
      url: { type: "string", minLength: 1, maxLength: 4_096 },
      prompt: { type: "string", minLength: 1, description: "What to find out from the page." },
    },
    required: ["url"],
    additionalProperties: false,
  },
  subject: "url",
  timeoutMs: TIMEOUT_MS,
  maxResult: 50_000,
  origin: "web",
  annotations: { readOnlyHint: true, openWorldHint: true },
} as const satisfies ToolDef;

export const WEB_SEARCH = {
  name: "WebSearch",
  op: "web_search",
  defer: true,
  description: "Search the web. Returns titles, URLs and excerpts.",
  input: {
    type: "object",
    properties: {
      query: { type: "string", minLength: 2, maxLength: 400 },
      allowed_domains: { ...DOMAINS, description: "Only results of these domains." },
      blocked_domains: { ...DOMAINS, description: "No results of these domains." },
      max_results: { type: "integer", minimum: 1, maximum: 20, description: "Default 8." },
    },
    required: ["query"],
    additionalProperties: false,
  },
  timeoutMs: TIMEOUT_MS,
  origin: "web",
  annotations: { readOnlyHint: true, openWorldHint: true },
} as const satisfies ToolDef;

/** `plugins: {web: …}` of config.yaml. */
export const SETTINGS = {
  type: "object",
  properties: {
    addresses: {
      type: "array",
      items: { type: "string" },
      description:
        "Addresses and ranges (CIDR) that are not public and may be reached, such as 192.168.1.20.",
    },
    search: {
      type: "object",
      properties: {
        engine: { type: "string", enum: ["searxng", "brave", "tavily"] },
        url: { type: "string", description: "The address of the search engine; SearXNG has no default." },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
} as const;

export type WebSettings = FromSchema<typeof SETTINGS>;
