import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AttachedImage } from "../../src/kernel/types.ts";
import type { LLMEvent } from "../../src/plugin/index.ts";
import { png } from "../support/images.ts";
import { calls, KernelHarness, says, script, silent, toolDevice } from "../support/kernel.ts";
import { until } from "../support/until.ts";

const can = { images: true };
const echo = { "/dev/echo": toolDevice("Echo", () => "heard") };

function image(width: number, height: number, grey = 0): AttachedImage {
  return { media_type: "image/png", width, height, data: png(width, height, grey) };
}

const base64 = ({ data }: AttachedImage): string => Buffer.from(data).toString("base64");

/** The images that each request carries with its first message. */
function shown(h: KernelHarness): (string | undefined)[][] {
  return h.requests.map(({ messages }) => (messages[0]?.images ?? []).map(({ data }) => data));
}

/** A model that never answers its first call, and each later one at once. */
function firstCallSilent(): KernelHarness {
  let asked = 0;
  return new KernelHarness({
    model: (request, signal) => (++asked === 1 ? silent(request, signal) : says("seen")),
    can,
  });
}

/** A run with these images whose first call is under way. */
async function askedOnce(h: KernelHarness, images: AttachedImage[]) {
  const pid = await h.spawn("look", { images });
  await until(() => h.requests.length === 1);
  return { pid, uuid: h.kernel.processes.info(pid).uuid };
}

describe("attached images", () => {
  test("are in the first message of every request, and in the records by name alone", async () => {
    const images = [image(300, 200), image(30, 20, 9)];
    await using h = new KernelHarness({
      model: script(calls(["Echo", {}]), calls(["Echo", {}]), says("done")),
      devices: echo,
      can,
    });
    const { info } = await h.run("look", { images });
    const both = images.map(base64);
    expect(shown(h)).toEqual([both, both, both]);
    expect(h.requests[0]?.messages[0]).toMatchObject({ role: "user", content: "look" });
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.messages[0]?.images).toEqual(
      images.map(({ data, ...size }) => {
        const sha256 = createHash("sha256").update(data).digest("hex");
        return { ...size, sha256, file: `results/${sha256}.png`, bytes: data.length };
      }),
    );
  });

  test("are stored once, for any number of steps with the same image", async () => {
    const same = image(100, 100);
    const model = script(...Array.from({ length: 20 }, () => calls(["Echo", {}])), says("done"));
    await using h = new KernelHarness({ model, devices: echo, can, limits: { loop_threshold: 100 } });
    const { info } = await h.run("look", { images: [same, same] });
    const folder = join(h.dataDir, "steps", info.uuid);
    expect(readdirSync(join(folder, "results"))).toHaveLength(1);
    const text = ["steps.jsonl", "process-meta.json", "proc-info.json", "events.jsonl"].map(
      (name) => statSync(join(folder, name)).size,
    );
    const longest = base64(same).slice(0, 40);
    for (const name of readdirSync(folder).filter((name) => name.includes(".json"))) {
      expect(await Bun.file(join(folder, name)).text()).not.toContain(longest);
    }
    expect(Math.max(...text)).toBeLessThan(100_000);
  });

  test("are there again when the run is resumed, and in its fork, which outlives it", async () => {
    const images = [image(64, 64)];
    await using h = firstCallSilent();
    const { pid, uuid } = await askedOnce(h, images);
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.resumed(uuid, {})).info).toMatchObject({ exit_reason: "completed", result: "seen" });
    const fork = await h.kernel.lifecycle.resume(uuid, null, h.opts(), { input: "once more", fork: {} });
    const ended = h.follow(fork.pid);
    await h.runs.remove(uuid);
    await ended;
    expect(shown(h)).toEqual([1, 2, 3].map(() => images.map(base64)));
  });

  test("of a run that never had an answer are its fork's, too", async () => {
    const images = [image(64, 64)];
    await using h = firstCallSilent();
    const { uuid } = await askedOnce(h, images);
    await h.resumed(uuid, { fork: {} });
    expect(shown(h)[1]).toEqual(images.map(base64));
  });

  test("are paid for where no price is declared", async () => {
    const words: LLMEvent[] = [
      { type: "text_delta", text: "seen" },
      { type: "stop", reason: "end_turn" },
    ];
    const used = async (images: AttachedImage[]): Promise<number> => {
      await using h = new KernelHarness({ model: () => words, can });
      return (await h.run("look", { images })).info.usage.input_tokens;
    };
    expect((await used([image(1000, 750)])) - (await used([]))).toBe(1000);
  });

  test("are refused before the run begins where the driver accepts none", async () => {
    await using h = new KernelHarness({ model: script() });
    const refused = h.spawn("look", { images: [image(9, 9)] });
    await expect(refused).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("accepts none"),
    });
    expect(h.requests).toEqual([]);
    expect(h.kernel.processes.listProcs()).toEqual([]);
  });

  test.each([
    ["missing", (file: string) => rmSync(file)],
    ["changed", (file: string) => writeFileSync(file, png(9, 9, 7))],
  ])("that are %s end the run, and are never sent as something else", async (what, damage) => {
    await using h = new KernelHarness({
      model: script(calls(["Damage", {}]), says("done")),
      devices: {
        "/dev/damage": toolDevice("Damage", () => {
          const uuid = h.kernel.processes.listProcs()[0]?.uuid ?? "";
          const folder = join(h.dataDir, "steps", uuid, "results");
          for (const name of readdirSync(folder)) damage(join(folder, name));
          return "done";
        }),
      },
      can,
    });
    const { info } = await h.run("look", { images: [image(9, 9)] });
    expect(info).toMatchObject({
      exit_reason: "llm_error",
      error: { code: "INVALID", message: expect.stringContaining(what) },
    });
    expect(h.requests).toHaveLength(1);
  });
});
