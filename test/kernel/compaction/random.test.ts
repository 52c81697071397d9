import { expect, setDefaultTimeout, test } from "bun:test";
import { tokenTargets } from "../../../src/kernel/conversation/compactor.ts";
import { firstMessage } from "../../../src/kernel/conversation/conversations.ts";
import { type LLMEvent, type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import type { JournalEntry } from "../../../src/store/runs/schema.ts";
import { calls, KernelHarness, says, toolDevice } from "../../support/kernel.ts";
import { eventsOf, historyOf } from "../../support/saved-history.ts";
import { seeded } from "../../support/seeded.ts";
import { soak } from "../../support/soak.ts";
import { requireWhole } from "../../support/whole.ts";
import { isAside, sizeOf } from "./support.ts";

setDefaultTimeout(120_000);

const SEEDS = soak(10, 30);
const STEPS = 40;
const ALPHABETS = [
  "plain words of a language ",
  "слова другого языка ",
  "漢字と仮名の文章",
  "🙂👩‍👩‍👧 ",
  "   \n\t{}[]();,",
];

/** The last one is not there. */
const TOOLS = [...Array(6).fill("Read"), ...Array(6).fill("Work"), "Gone"];

/** One run: what its model and its tools do is up to chance, and to the seed alone. */
class Chance {
  readonly intent: string;
  readonly window: number;
  /** Tokens that the provider counts for one that is guessed. */
  readonly ratio: number;
  lastPlan: string | undefined;
  lastHeard: string | undefined;
  readonly #random: () => number;
  #sent = 0;

  constructor(seed: number) {
    this.#random = seeded(seed);
    this.intent = `Do what must be done (${seed}).`;
    this.window = this.#from(8_000, 30_000);
    this.ratio = 0.6 + 2 * this.#random();
  }

  /** Of one step: a few calls beside each other, a plan, or a message that arrives meanwhile. */
  async step(h: KernelHarness): Promise<LLMEvent[]> {
    const kind = this.#random();
    if (kind < 0.1) {
      const plan = `step ${this.#from(1, 1000)}`;
      this.lastPlan = `1. ${plan}\n2. the rest`;
      return calls(["Plan", { steps: [plan, "the rest"] }]);
    }
    if (kind < 0.2) {
      this.lastHeard = `Mind the number ${++this.#sent}.`;
      await h.kernel.ipc.send(0, 1, this.lastHeard);
    }
    const wanted = Array.from({ length: this.#from(1, 3) }, (): [string, Record<string, unknown>] => [
      TOOLS[this.#from(0, TOOLS.length - 1)] ?? "",
      { path: `file ${this.#from(1, 9)}`, note: this.text(this.#from(0, 300)) },
    ]);
    const [first, ...rest] = calls(...wanted);
    return [{ type: "text_delta", text: this.text(this.#from(0, 200)) }, ...(first ? [first] : []), ...rest];
  }

  summary(): LLMEvent[] {
    const kind = this.#random();
    if (kind < 0.2) throw new SyscallError("UNAVAILABLE", "down", { retryable: false });
    if (kind < 0.3) return calls(["Work", {}]);
    return says(kind < 0.4 ? this.text(20_000) : "What was done was done.");
  }

  text(length: number): string {
    const alphabet = ALPHABETS[this.#from(0, ALPHABETS.length - 1)] ?? "";
    return alphabet
      .repeat(Math.ceil(length / alphabet.length))
      .slice(0, length)
      .toWellFormed();
  }

  result(): string {
    return this.text(this.#random() < 0.1 ? this.#from(20_000, 60_000) : this.#from(0, 5_000));
  }

  #from(least: number, most: number): number {
    return least + Math.floor(this.#random() * (most - least + 1));
  }
}

/** What its model sees of a run at one step: it can continue from there. */
function requireUsable(request: LLMRequest, chance: Chance, heard: string | undefined): void {
  requireWhole(request.messages);
  const [first] = request.messages;
  expect(first?.role).toBe("user");
  expect(first?.content).toStartWith(chance.intent);
  const all = JSON.stringify(request.messages);
  if (chance.lastPlan !== undefined) expect(all).toContain(chance.lastPlan.split("\n")[0] ?? "");
  if (heard !== undefined) expect(all).toContain(heard);
  for (const { content } of request.messages) expect(content.isWellFormed()).toBe(true);
}

async function through(seed: number): Promise<number> {
  const chance = new Chance(seed);
  let answers = 0;
  /** Sent before the step that is asked for now. */
  let heard: string | undefined;
  await using h: KernelHarness = new KernelHarness({
    model: async (request) => {
      expect(sizeOf(request) * chance.ratio).toBeLessThan(chance.window);
      if (isAside(request)) return chance.summary();
      requireUsable(request, chance, heard);
      heard = chance.lastHeard;
      const events = ++answers < STEPS ? await chance.step(h) : says("done");
      heard = chance.lastHeard ?? heard;
      const usage = {
        input_tokens: Math.ceil(sizeOf(request) * chance.ratio),
        output_tokens: 5,
        cached_tokens: 0,
      };
      return events.map((event) => (event.type === "usage" ? { type: "usage", usage } : event));
    },
    devices: {
      "/dev/files": toolDevice("Read", () => chance.result(), {
        subject: "path",
        input: { type: "object", required: ["path"] },
        annotations: { readOnlyHint: true },
      }),
      "/dev/work": toolDevice("Work", () => chance.result()),
    },
    limits: { context_window: chance.window },
  });
  const { info } = await h.run(chance.intent);
  expect([info.exit_reason, info.error]).toEqual(["completed", null]);
  const { records } = await h.runs.steps(info.uuid);
  const asked = h.requests.filter((request) => !isAside(request));
  expect(new Set(asked.map(({ system_prompt, tools }) => JSON.stringify([system_prompt, tools]))).size).toBe(
    1,
  );
  const room = tokenTargets({}, { context_window: chance.window, compact_at: 80 }, Number.POSITIVE_INFINITY);
  let made = 0;
  for (const { step, compactions = [], messages } of records) {
    for (const one of compactions) {
      made++;
      expect(one.tokens_after).toBeLessThanOrEqual(one.tokens_before * 0.9);
      expect(one.tokens_after).toBeLessThanOrEqual(room.trigger);
    }
    const journal = compactions.map(
      (compaction): JournalEntry => ({ t: "compact", step, ts: "", compaction }),
    );
    const before = historyOf(
      eventsOf(records.slice(0, step - 1), journal),
      firstMessage(chance.intent, undefined),
    );
    const sent = step === 1 ? [] : messages.slice(0, -1);
    expect<unknown>([...before.messages, ...sent]).toEqual(asked[step - 1]?.messages);
    const now = asked[step - 1]?.messages ?? [];
    const last = asked[step - 2]?.messages ?? [];
    if (compactions.length === 0) expect(now.slice(0, last.length)).toEqual(last);
  }
  return made;
}

test("after any conversation and compaction the run can continue, and the records explain each change", async () => {
  let made = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    made += await through(seed).catch((cause: unknown) => {
      throw new Error(`seed ${seed}`, { cause });
    });
  }
  expect(made).toBeGreaterThan(SEEDS);
});
