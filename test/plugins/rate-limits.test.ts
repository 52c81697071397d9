import { describe, expect, test } from "bun:test";
import { rateLimits, waitsOf } from "../../plugins/_model/rate-limits.ts";

const DATE = "Thu, 01 Jan 2026 00:00:00 GMT";

describe("the rate limits in headers", () => {
  test.each([
    ["1s", 1_000],
    ["6m0s", 360_000],
    ["1h2m3.5s", 3_723_500],
    ["1d", 86_400_000],
    ["120ms", 120],
    ["1m120ms", 60_120],
    ["17", 17_000],
    ["0.5", 500],
    ["2026-01-01T00:00:10Z", 10_000],
    ["2025-12-31T23:59:00Z", 0],
    ["1767225610", 10_000],
    ["1767225610500", 10_500],
    ["999999999999999999", undefined],
    ["soon", undefined],
    [`${"9".repeat(400)}s`, undefined],
    ["9".repeat(400), undefined],
    ["", undefined],
  ])("a window is full again after %p", (reset, ms) => {
    const headers = {
      date: DATE,
      "x-ratelimit-remaining-requests": "3",
      "x-ratelimit-reset-requests": reset,
    };
    expect(rateLimits(headers)).toEqual({
      requests: ms === undefined ? { remaining: 3 } : { remaining: 3, reset_ms: ms },
    });
  });

  test("are absent without headers, or without a number in them", () => {
    expect(rateLimits({})).toBeUndefined();
    expect(rateLimits({ "x-ratelimit-reset-requests": "1s" })).toBeUndefined();
    expect(
      rateLimits({ "x-ratelimit-remaining-tokens": "many", "x-ratelimit-limit-tokens": "-1" }),
    ).toBeUndefined();
    expect(rateLimits({ "x-ratelimit-remaining-tokens": "9".repeat(400) })).toBeUndefined();
  });
});

describe("the wait in a refusal", () => {
  test.each([
    [{ "retry-after": "7" }, { retryAfterMs: 7_000 }],
    [{ "retry-after": "0" }, { retryAfterMs: 0 }],
    [{ "retry-after": "1.5" }, { retryAfterMs: 1_500 }],
    [{ "retry-after-ms": "250", "retry-after": "1" }, { retryAfterMs: 250 }],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT", date: DATE }, { retryAfterMs: 30_000 }],
    [{ "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT", date: DATE }, { retryAfterMs: 0 }],
    [{ "retry-after": "1767225607", date: DATE }, { retryAfterMs: 7_000 }],
    [{ "retry-after": "later", date: DATE }, {}],
    [
      { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s" },
      { retryAfterMs: 20_000 },
    ],
    [{ "x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "20s" }, {}],
    [
      {
        "retry-after": "7",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "20s",
      },
      { retryAfterMs: 7_000 },
    ],
    [
      {
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T00:05:00Z",
        date: DATE,
      },
      { resetAtMs: Date.UTC(2026, 0, 1, 0, 5) },
    ],
    [{}, {}],
  ])("%j", (headers, waits) => {
    expect(waitsOf(headers)).toEqual(waits);
  });
});
