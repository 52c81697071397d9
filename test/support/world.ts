import { expect } from "bun:test";
import { join } from "node:path";
import { toolMessage } from "../../src/kernel/conversation/conversations.ts";
import type { Limits } from "../../src/kernel/types.ts";
import type { LLMEvent, LLMMessage, LLMRequest } from "../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, toolDevice } from "./kernel.ts";
import type { MemoryDisk } from "./memory-disk.ts";
import { memoryFolder } from "./memory-folder.ts";
import { eventsOf, historyOf } from "./saved-history.ts";
import { requireWhole } from "./whole.ts";

/** Acts, each of which must be done once. */
const GOAL = 5;

/** How much is said in a run, and how long that may become before it is compacted. */
export interface Conversation {
  /** Beside each tool's answer. */
  chatter?: string;
  limits?: Partial<Limits>;
}

export const SHORT: Conversation = {};
/** It is compacted more than once, on the way to its end. */
export const LONG: Conversation = { chatter: " so it is".repeat(300), limits: { context_window: 2500 } };

/** What is outside of the machine that dies: it stays as it was. */
export class World {
  /** Acts that were done, each with the number of the answer that asked for it. */
  readonly acts: string[] = [];
  /** Messages that were accepted, and those that were never acknowledged. */
  readonly accepted: string[] = [];
  /** What each tool says beside its answer. */
  readonly chatter: string;
  #answers = 0;

  constructor(chatter = "") {
    this.chatter = chatter;
  }

  /** Does what is missing, as far as the conversation tells. What it doesn't know it looks up. */
  readonly model: Model = ({ messages }: LLMRequest): LLMEvent[] => {
    requireWhole(messages);
    if (messages.at(-1)?.content.startsWith("[From rnix")) return says("Some acts are done. Look which.");
    const n = ++this.#answers;
    const done = knownActs(messages);
    if (!done) return calls(["Look", {}]);
    const missing = Array.from({ length: GOAL }, (_, at) => at + 1).filter((act) => !done.has(act));
    const [first, second] = missing;
    const act = (number = 0): [string, Record<string, unknown>] => ["Act", { act: `${number}:${n}` }];
    if (first === undefined) return says("done");
    if (first === 1) return calls(["Look", {}], act(1));
    if (first === 2 && second === 3) return calls(act(2), act(3));
    if (first === 4) return calls(["Look", {}], ["Set", {}], ["Tell", { note: `note-${n}.` }], act(4));
    return calls(act(first));
  };
}

/** undefined: it must look. */
function knownActs(messages: readonly LLMMessage[]): Set<number> | undefined {
  let known: Set<number> | undefined;
  const asked = new Map(messages.flatMap(({ tool_calls = [] }) => tool_calls.map((call) => [call.id, call])));
  for (const { role, content, tool_call_id = "" } of messages) {
    if (role !== "tool") continue;
    const call = asked.get(tool_call_id);
    const failed = content.startsWith("Error ") || content.startsWith("[Left out");
    if (call?.name === "Look") known = failed ? undefined : new Set(content.match(/\d+(?=:)/g)?.map(Number));
    if (call?.name !== "Act") continue;
    if (failed) known = undefined;
    else known?.add(Number.parseInt(String(call.input.act), 10));
  }
  return known;
}

/** Of every kernel on such a disk, one after the other: a record says where it was written. */
const FOLDER = join(memoryFolder, `rnix-kernel-world-${process.pid}`);

/** A kernel on this disk, and the tools that reach the world as long as it lives. */
export function machine(disk: MemoryDisk, world: World, limits?: Partial<Limits>): KernelHarness {
  const h = new KernelHarness({
    model: world.model,
    fs: disk,
    dir: FOLDER,
    limits,
    devices: {
      "/dev/look": toolDevice("Look", () => `${world.acts.join(" ")}${world.chatter}`, {
        annotations: { readOnlyHint: true },
      }),
      "/dev/act": toolDevice("Act", ({ act }) => {
        disk.tick();
        world.acts.push(String(act));
        disk.tick();
        return `done${world.chatter}`;
      }),
      "/dev/set": toolDevice("Set", () => `set${world.chatter}`, { annotations: { idempotentHint: true } }),
      "/dev/tell": toolDevice("Tell", async ({ note }) => {
        await h.kernel.ipc.send(0, 1, String(note));
        world.accepted.push(String(note));
        return "delivered";
      }),
    },
  });
  return h;
}

/**
 * Resumes the run, or begins it where there is none yet, and follows it to its end. A run that is missing, or
 * can't be resumed, must have done nothing.
 */
export async function live(h: KernelHarness, world: World): Promise<string> {
  const saved = (await h.runs.list()).at(-1);
  if (saved?.exit_reason === "completed") return saved.uuid;
  const resumed =
    saved &&
    (await h.kernel.lifecycle.resume(saved.uuid, null, h.opts()).catch((why: unknown) => String(why)));
  // Its end was known to the kernel alone, whose disk did not take it.
  if (resumed !== undefined && (await h.runs.info(saved?.uuid ?? ""))?.exit_reason === "completed") {
    return saved?.uuid ?? "";
  }
  if (typeof resumed !== "object") expect({ resumed, acts: world.acts }).toMatchObject({ acts: [] });
  const pid = typeof resumed === "object" ? resumed.pid : await h.spawn("go");
  const { info } = await h.follow(pid);
  return info.uuid;
}

/** The run has come to its end, and what it did is what its records say, each once. */
export async function requireRight(h: KernelHarness, uuid: string, world: World): Promise<void> {
  expect(await h.runs.info(uuid)).toMatchObject({ exit_reason: "completed", result: "done" });
  // Each once, whatever has happened.
  expect(world.acts.map((act) => Number.parseInt(act, 10)).toSorted()).toEqual([1, 2, 3, 4, 5]);
  const { records } = await h.runs.steps(uuid);
  expect(records.map(({ step }) => step)).toEqual(records.map((_, at) => at + 1));
  const made = records.flatMap(({ tool_calls }) => tool_calls);
  // The records tell of every act, and of none that was not done.
  const acts = made.filter(({ name }) => name === "Act");
  for (const act of world.acts) expect(acts.filter(({ input }) => input.act === act)).toHaveLength(1);
  for (const { state, input } of acts) if (state === "done") expect(world.acts).toContain(String(input.act));
  requireWhole(records.flatMap(({ messages, tool_calls }) => [...messages, ...tool_calls.map(toolMessage)]));
  for (let step = 0; step <= records.length; step++) {
    requireWhole(historyOf(eventsOf(records.slice(0, step), []), { role: "user", content: "go" }).messages);
  }
  const conversation = records.flatMap(({ messages }) => messages.map(({ content }) => content)).join("\n");
  for (const note of world.accepted) expect(conversation.split(note)).toHaveLength(2);
}
