import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { AgentInfo, HookSource, SpawnOpts } from "../../../src/kernel/types.ts";
import type { OpenContext, Plugin } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { KernelHarness, says, script, toolDevice } from "../../support/kernel.ts";

const ALL: AgentInfo = { ...bareAgent("any"), instructions: "Do.", allowedTools: ["*"] };

/** A lease with the plugin `test`, which gives this part. */
function withPart(
  h: KernelHarness,
  prompt: NonNullable<Plugin["prompt"]>,
  more: Partial<HookSource> = {},
): Partial<SpawnOpts> {
  const { devices } = h.opts();
  const source = {
    plugin: "test",
    layer: "stock" as const,
    needs: ["store"] as const,
    config: { a: 1 },
    prompt,
  };
  return { devices: { ...devices, hooks: [{ ...source, ...more }] }, projectDoc: "The document." };
}

const harness = (clock?: FakeClock): KernelHarness =>
  new KernelHarness({
    devices: { "/dev/now": toolDevice("Now", () => "noon") },
    model: script(says("done"), says("again"), says("forked")),
    clock,
  });

/** Each lease that was made beside the run's own. */
function release(h: KernelHarness, count = 1): void {
  h.leases -= count;
}

describe("a plugin's part of the prompt head", () => {
  test("is between the project's document and the environment; a resume keeps it, a fork asks again", async () => {
    await using h = harness();
    const seen: OpenContext[] = [];
    const opts = withPart(h, async (context) => {
      seen.push(context);
      return { title: "Notes", text: `\nAsked ${seen.length} times.\n` };
    });
    const { info } = await h.run("go", opts, ALL);
    const head = h.requests[0]?.system_prompt ?? "";
    const order = ["The document.", "# Notes\n\nAsked 1 times.\n\n# Environment"].map((part) =>
      head.indexOf(part),
    );
    expect(order).not.toContain(-1);
    expect(order).toEqual(order.toSorted((a, b) => a - b));
    expect(seen[0]).toMatchObject({ process: { uuid: info.uuid, tree: info.uuid }, config: { a: 1 } });
    expect(seen[0]?.call).toBeUndefined();
    expect(seen[0]?.store).toBeDefined();
    expect(seen[0]?.exec).toBeUndefined();
    const parts = [{ plugin: "test", title: "Notes", characters: "\nAsked 1 times.\n".length }];
    expect(await h.runs.meta(info.uuid)).toMatchObject({ prompt_parts: parts });

    for (const fork of [undefined, {}]) {
      const made = await h.kernel.lifecycle.resume(info.uuid, ALL, h.opts(opts), { input: "more", fork });
      await h.follow(made.pid);
      expect(await h.runs.meta(made.uuid)).toMatchObject({ prompt_parts: parts });
    }
    expect(h.requests[1]?.system_prompt).toBe(head);
    expect(h.requests[2]?.system_prompt).toContain("Asked 2 times.");
    release(h);
  });

  test("is not asked for without a usable tool of the plugin, and null and an empty text are nothing", async () => {
    await using h = harness();
    let asked = 0;
    const count = async () => {
      asked++;
      return null;
    };
    await h.run("go", withPart(h, count), { ...ALL, allowedTools: ["Complete"] });
    await h.run("go", withPart(h, count, { layer: "project" }), ALL);
    expect(asked).toBe(0);
    const { info } = await h.run("go", withPart(h, count), ALL);
    expect(asked).toBe(1);
    expect(await h.runs.meta(info.uuid)).not.toHaveProperty("prompt_parts");
    release(h, 3);
  });

  test.each<[string, NonNullable<Plugin["prompt"]>, string]>([
    ["fails", () => Promise.reject(new Error("no disk")), "no disk"],
    [
      "throws at once",
      () => {
        throw new Error("at once");
      },
      "at once",
    ],
    ["is too long", async () => ({ title: "T", text: "x".repeat(16_385) }), "at most 16384"],
    ["has a title of two lines", async () => ({ title: "T\nU", text: "x" }), "one line"],
  ])("is left out with a notice if it %s", async (_title, prompt, why) => {
    await using h = harness();
    const { info, events } = await h.run("go", withPart(h, prompt), ALL);
    expect(info.exit_code).toBe(0);
    expect(h.requests[0]?.system_prompt).not.toContain("# T");
    const notice = events.flatMap((event) => (event.event === "notice" ? event.text : [])).join();
    expect(notice).toContain("The part of the plugin test in the prompt is left out:");
    expect(notice).toContain(why);
    release(h);
  });

  test("is left out after 2 seconds, also if it ignores its signal", async () => {
    const clock = new FakeClock();
    await using h = harness(clock);
    let signal: AbortSignal | undefined;
    const running = h.run(
      "go",
      withPart(h, (_context, given) => {
        signal = given;
        return new Promise(() => {});
      }),
      ALL,
    );
    while (signal === undefined) await settled();
    clock.advance(2_000);
    const { info } = await running;
    expect(signal.aborted).toBe(true);
    expect(info.exit_code).toBe(0);
    release(h);
  });
});

test("for a listing that can't be made, the lease of the devices is released", async () => {
  await using h = harness();
  const { devices } = withPart(h, async () => null);
  if (!devices) throw new Error("there is no lease");
  const before = process.env.TMPDIR;
  process.env.TMPDIR = join(h.dir, "missing");
  try {
    await expect(h.kernel.calls.promptParts({ ...h.opts(), devices })).rejects.toThrow("ENOENT");
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  release(h);
});
