import { describe, expect, test } from "bun:test";
import { KernelHarness, says } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";
import { compactionsOf, DEVICES, INTENT, model, read, reads, recordOf } from "./support.ts";

/** A run that asks for its compaction after a number of reads. */
async function compactedAfter(count: number) {
  let asked: Promise<unknown> = Promise.resolve();
  const h: KernelHarness = new KernelHarness({
    model: model([
      ...reads(count),
      () => {
        asked = h.kernel.chats.compact(1);
        return read("last", 100);
      },
      says("done"),
    ]),
    devices: DEVICES,
  });
  const { info } = await h.run(INTENT);
  return { h, info, asked, [Symbol.asyncDispose]: () => h[Symbol.asyncDispose]() };
}

describe("compact", () => {
  test("is done before the next step, and tells the tokens before and after", async () => {
    await using run = await compactedAfter(5);
    const { h, info, asked } = run;
    const [made] = compactionsOf(await recordOf(h, info.uuid));
    expect(made).toMatchObject({ step: 7, why: "asked" });
    expect(await asked).toEqual({
      tokensBefore: made?.tokens_before ?? 0,
      tokensAfter: made?.tokens_after ?? 0,
      by: made?.summary?.by ?? null,
    });
    const events = (await h.runs.events(info.uuid)).records;
    expect(events.find(({ syscall }) => syscall === "Compact")).toMatchObject({
      args: { pid: 1, by: 0 },
      result: { tokens_before: made?.tokens_before, tokens_after: made?.tokens_after },
    });
  });

  test("changes nothing where nothing is to be gained", async () => {
    await using run = await compactedAfter(0);
    const { h, info, asked } = run;
    const { tokensBefore, tokensAfter } = (await asked) as { tokensBefore: number; tokensAfter: number };
    expect(tokensAfter).toBe(tokensBefore);
    expect(compactionsOf(await recordOf(h, info.uuid))).toEqual([]);
  });

  test("is refused for what is paused, has ended, or ends before another step", async () => {
    const last = Promise.withResolvers<void>();
    await using h: KernelHarness = new KernelHarness({
      model: model([
        async () => {
          await last.promise;
          return says("done");
        },
      ]),
    });
    const pid = await h.spawn(INTENT);
    h.kernel.processes.kill(pid, 4);
    await expect(h.kernel.chats.compact(pid)).rejects.toMatchObject({ code: "INVALID" });
    h.kernel.processes.kill(pid, 5);
    const asked = h.kernel.chats.compact(pid);
    last.resolve();
    await expect(asked).rejects.toMatchObject({ code: "CLOSED" });
    await until(() => h.kernel.processes.count === 0);
    await expect(h.kernel.chats.compact(pid)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
