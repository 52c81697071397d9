/** A run with each kind of event, on a machine that dies at each operation of its disk. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import type { ProviderChoice } from "../../src/kernel/types.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "../support/kernel.ts";
import { type Loss, MemoryDisk, ROOT } from "../support/memory-disk.ts";
import { memoryFolder } from "../support/memory-folder.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";

setDefaultTimeout(120_000);

/** Of every kernel on such a disk, one after the other. */
const FOLDER = join(memoryFolder, `rnix-kernel-events-${process.pid}`);
const EVERY = soak(3, 1);

/** The agent acts after a question, has a child that does the same, and ends with another model. */
class World {
  readonly acts: string[] = [];

  readonly model: Model = ({ intent, messages, model }) => {
    if (!this.acts.includes(intent)) return calls(["Act", { act: intent }]);
    if (intent === "part") return says("part");
    const hasPart = messages.some(({ role, content }) => role === "tool" && content.startsWith("part\n"));
    if (!hasPart) return calls(["Agent", { intent: "part" }]);
    if (model === "first") throw new SyscallError("EXHAUSTED", "no credit", { retryable: false });
    return says("done");
  };
}

function machine(disk: MemoryDisk, world: World): KernelHarness {
  return new KernelHarness({
    model: world.model,
    fs: disk,
    dir: FOLDER,
    devices: {
      "/dev/act": toolDevice(
        "Act",
        ({ act }) => {
          disk.tick();
          world.acts.push(String(act));
          disk.tick();
          return "acted";
        },
        { annotations: { destructiveHint: true } },
      ),
    },
    planChild: async () => ({ ask: ["Act"] }),
  });
}

const PROVIDER: Omit<ProviderChoice, "model"> = {
  name: "scripted",
  device: "/dev/llm/scripted",
  config: {},
  gateKey: "scripted",
  because: "test",
  secret: async () => "key",
};

/** Begins the run, or resumes it, and says yes to each question until it has ended. */
async function live(h: KernelHarness): Promise<string> {
  const more = {
    ask: ["Act"],
    provider: { ...PROVIDER, model: "first", fallbacks: [{ ...PROVIDER, model: "second" }] },
  };
  const saved = (await h.runs.list()).find(({ intent }) => intent === "go");
  if (saved?.exit_reason === "completed") return saved.uuid;
  const resumed = saved && (await h.kernel.lifecycle.resume(saved.uuid, null, h.opts(more)));
  const pid = resumed?.pid ?? (await h.spawn("go", more));
  const events = h.kernel.attach(pid, { answers: true });
  for await (const event of events)
    if (event.event === "ask") h.kernel.asks.answer(event.ask.ask.id, [{ choices: ["yes"] }], "test");
  const { info } = await h.follow(pid);
  return info.uuid;
}

/** One run through a crash to its end. Returns the operations of the disk in its last life. */
async function through(crash?: { at: number; loss: Loss }, random = seeded(1)): Promise<number> {
  const world = new World();
  let disk = new MemoryDisk((path) => path.replace(/^.*\/project(?=\/|$)/, ROOT));
  if (crash) {
    disk.diesAt = crash.at;
    {
      await using h = machine(disk, world);
      await live(h).catch(() => undefined);
    }
    disk = disk.after(crash.loss, random);
  }
  await using h = machine(disk, world);
  const uuid = await live(h);
  expect(await h.runs.info(uuid)).toMatchObject({ exit_reason: "completed", result: "done" });
  expect(world.acts).toEqual(["go", "part"]);
  const { records } = await h.runs.steps(uuid);
  expect(records.map(({ step }) => step)).toEqual(records.map((_, at) => at + 1));
  if (!crash) await requireEachKind(h, uuid);
  return disk.operations;
}

async function requireEachKind(h: KernelHarness, uuid: string): Promise<void> {
  const kinds = new Set<string>();
  for await (const { t } of h.runs.story({ uuid })) kinds.add(t);
  expect([...kinds].toSorted()).toEqual([
    "answer",
    "call_end",
    "call_start",
    "read",
    "step",
    "switch",
    "verdict",
    "waiting",
  ]);
}

test.each<Loss>(["nothing", "unsynced"])(
  "with a question, a child and a fallback; lost: %s",
  async (loss) => {
    const operations = await through();
    expect(operations).toBeGreaterThan(50);
    for (let at = 1; at <= operations; at += EVERY)
      await through({ at, loss }).catch((cause: unknown) => {
        throw new Error(`at operation ${at}`, { cause });
      });
  },
);
