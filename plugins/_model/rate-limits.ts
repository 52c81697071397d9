/** Reads wait times and rate limits from the headers of a provider's answer. */

import type { RateLimit, RateLimits, SyscallErrorDetail } from "rnix/plugin";

type Headers = Readonly<Record<string, string | undefined>>;

/** How long a refusal says to wait: `Retry-After` in seconds or as a date, and the resets of exhausted windows. */
export function waitsOf(headers: Headers): Pick<SyscallErrorDetail, "retryAfterMs" | "resetAtMs"> {
  const milliseconds = Number(headers["retry-after-ms"] ?? Number.NaN);
  const asked = Number.isFinite(milliseconds)
    ? milliseconds
    : retryAfter(headers["retry-after"], headers.date);
  const resets = Object.keys(headers).flatMap((name) => resetOf(name, headers));
  const retryAfterMs = asked ?? (resets.length === 0 ? untilAllReset(rateLimits(headers)) : undefined);
  return {
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(resets.length === 0 ? {} : { resetAtMs: Math.max(...resets) }),
  };
}

/** The time until all exhausted windows are reset. */
function untilAllReset({ requests, tokens }: RateLimits = {}): number | undefined {
  const waits = [requests, tokens].flatMap((limit) => (limit?.remaining === 0 ? (limit.reset_ms ?? []) : []));
  return waits.length === 0 ? undefined : Math.max(...waits);
}

/**
 * The key's limits from an answer's headers: Anthropic's `anthropic-ratelimit-requests-remaining`, and
 * `x-ratelimit-remaining-requests` of OpenAI and compatible servers.
 */
export function rateLimits(headers: Headers): RateLimits | undefined {
  const requests = limitOf("requests", headers);
  // Where input and output have limits of their own, only the input is known before a request.
  const tokens = limitOf("input-tokens", headers) ?? limitOf("tokens", headers);
  if (requests === undefined && tokens === undefined) return undefined;
  return { ...(requests && { requests }), ...(tokens && { tokens }) };
}

function limitOf(what: string, headers: Headers): RateLimit | undefined {
  const header = (part: string) =>
    headers[`anthropic-ratelimit-${what}-${part}`] ?? headers[`x-ratelimit-${part}-${what}`];
  const limit = count(header("limit"));
  const remaining = count(header("remaining"));
  const reset_ms = untilReset(header("reset"), headers.date);
  if (limit === undefined && remaining === undefined) return undefined;
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(remaining === undefined ? {} : { remaining }),
    ...(reset_ms === undefined ? {} : { reset_ms }),
  };
}

function count(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined;
}

/** RFC 3339 from Anthropic, a duration from OpenAI ("6m0s", "1h2m3.5s", "120ms"), or plain seconds. */
function untilReset(text: string | undefined, date: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  return seconds(text, date) ?? duration(text) ?? untilTime(text, date);
}

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

function duration(text: string): number | undefined {
  if (!/^(\d+(\.\d+)?(ms|[dhms]))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, value, unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g))
    sum += Number(value) * (UNITS[unit] ?? 0);
  return Number.isFinite(sum) ? Math.round(sum) : undefined;
}

/** RFC 9110, 10.2.3. */
function retryAfter(value: string | undefined, date: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  return seconds(value, date) ?? untilTime(value, date);
}

/** A number of seconds. From some proxies it is a time since 1970, in seconds or milliseconds: no wait is 30 years. */
function seconds(text: string, date: string | undefined): number | undefined {
  if (!/^\d+(\.\d+)?$/.test(text.trim())) return undefined;
  const value = Number(text);
  if (value < 1e9) return Math.round(value * 1000);
  return untilTime(new Date(value < 1e12 ? value * 1000 : value), date);
}

/** A time counts from the server's own clock, which may differ from ours. */
function untilTime(value: string | Date, date: string | undefined): number | undefined {
  const wait = new Date(value).getTime() - (date === undefined ? Date.now() : Date.parse(date));
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined;
}

/** `anthropic-ratelimit-tokens-reset: 2026-01-01T00:00:00Z`, if that window is exhausted. */
function resetOf(name: string, headers: Headers): number[] {
  const window = /^(anthropic-ratelimit-.+)-reset$/.exec(name)?.[1];
  if (window === undefined || headers[`${window}-remaining`] !== "0") return [];
  const at = Date.parse(headers[name] ?? "");
  return Number.isFinite(at) ? [at] : [];
}
