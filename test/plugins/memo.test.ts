import { describe, expect, test } from "bun:test";
import { Memo } from "../../plugins/_model/memo.ts";

describe("a memo", () => {
  test("makes the value once for a key, and again when the key changes", async () => {
    const memo = new Memo<number>();
    let made = 0;
    const get = (...parts: unknown[]) => memo.get(parts, async () => ++made);
    expect([await get("m", "key", true), await get("m", "key", true)]).toEqual([1, 1]);
    expect(await get("m", "other key", true)).toBe(2);
    expect(await get("m", "key", true)).toBe(3);
    expect(await get("m", "key", false)).toBe(4);
  });

  test("makes the value again after a failure", async () => {
    const memo = new Memo<string>();
    await expect(memo.get([1], () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await memo.get([1], async () => "yes")).toBe("yes");
  });
});
