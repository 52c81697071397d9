import { describe, expect, test } from "bun:test";
import { Memo } from "../../plugins/_model/memo.ts";

describe("a kept value", () => {
  test("is made once as long as its parts stay, and anew when one of them changes", async () => {
    const kept = new Memo<number>();
    let made = 0;
    const get = (...parts: unknown[]) => kept.get(parts, async () => ++made);
    expect([await get("m", "key", true), await get("m", "key", true)]).toEqual([1, 1]);
    expect(await get("m", "other key", true)).toBe(2);
    expect(await get("m", "key", true)).toBe(3);
    expect(await get("m", "key", false)).toBe(4);
  });

  test("that could not be made is tried again", async () => {
    const kept = new Memo<string>();
    await expect(kept.get([1], () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await kept.get([1], async () => "yes")).toBe("yes");
  });
});
