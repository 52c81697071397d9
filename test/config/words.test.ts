import { describe, expect, test } from "bun:test";
import { suggestion } from "../../src/config/files/suggestion.ts";
import { formatDuration, parseDuration } from "../../src/lib/duration.ts";
import { nearestName } from "../../src/lib/edit-distance.ts";
import { formatSize, parseSize } from "../../src/lib/size.ts";
import { failure } from "./sandbox.ts";

describe("a duration", () => {
  test.each([
    ["250ms", 250],
    ["1s", 1000],
    ["60s", 60_000],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["1h30m", 5_400_000],
    ["1m500ms", 60_500],
    ["2d", 172_800_000],
  ])("%s is %d ms", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
    expect(parseDuration(formatDuration(ms))).toBe(ms);
  });

  test.each([
    "",
    "0",
    "0s",
    "0ms",
    "60",
    "1.5h",
    "-5s",
    "5 m",
    "30m1h",
    "5min",
    "s",
    "unlimited",
    "25d",
    "99999999999h",
  ])('"%s" is refused as INVALID', async (text) => {
    expect((await failure(() => parseDuration(text))).code).toBe("INVALID");
  });

  test("a number without a unit is answered with the one that was probably meant", async () => {
    expect((await failure(() => parseDuration("60"))).message).toContain("60s");
  });

  test.each([
    [60_000, "1m"],
    [90_000, "1m30s"],
    [3_600_000, "1h"],
    [100, "100ms"],
    [86_400_000, "1d"],
  ])("%d ms is written as %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });
});

describe("a size", () => {
  test.each([
    ["500B", 500],
    ["64KiB", 65_536],
    ["16MiB", 16_777_216],
    ["1GiB", 1_073_741_824],
  ])("%s is %d bytes, and is written like that", (text, bytes) => {
    expect(parseSize(text)).toBe(bytes);
    expect(formatSize(bytes)).toBe(text);
  });

  test.each(["", "0B", "64", "64KB", "64 KiB", "1.5MiB", "MiB"])(
    '"%s" is refused as INVALID',
    async (text) => {
      expect((await failure(() => parseSize(text))).code).toBe("INVALID");
    },
  );
});

describe("the nearest name", () => {
  const names = ["default", "code-analyst", "coder", "openai", "anthropic"];
  test.each([
    ["defualt", "default"],
    ["Coder", "coder"],
    ["coderr", "coder"],
    ["opnai", "openai"],
    ["antropic", "anthropic"],
    ["code-analist", "code-analyst"],
    ["code", "coder"],
    ["def", "default"],
  ])('to "%s" is %s', (wrong, right) => {
    expect(nearestName(wrong, names)).toBe(right);
  });

  test.each(["xyz", "", "replay"])('to "%s" does not exist', (wrong) => {
    expect(nearestName(wrong, names)).toBeUndefined();
  });

  test("a suggestion names the near one and lists all, in order", () => {
    expect(suggestion("codr", ["coder", "default", "b"])).toBe(
      ' Did you mean "coder"? There are: b, coder, default.',
    );
    expect(suggestion("xyz", [])).toBe("");
  });
});
