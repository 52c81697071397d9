/** The numbers of a run's events, and the story that is read from any of them on. */

import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { damagedFileText } from "../../../src/lib/damage-text.ts";
import { DamageCollector } from "../../../src/store/files/damaged-lines.ts";
import { RunStore, type RunWriter } from "../../../src/store/runs/run-store.ts";
import { type StoryEvent, StoryReader } from "../../../src/store/runs/story.ts";
import { procInfo } from "../../support/samples.ts";
import { seeded } from "../../support/seeded.ts";
import { soak } from "../../support/soak.ts";
import { answer, callEnd, callStart, stepRecord } from "../samples.ts";
import { temporaryFolder } from "../support.ts";

const TS = "2026-11-20T00:00:00.000Z";

const UUID = "019a0000-0000-7000-8000-000000000001";

function integers(seed: number): (below: number) => number {
  const random = seeded(seed);
  return (below) => Math.floor(random() * below);
}

/** What is the same of an event in the journal and in the record of its step. */
function short(event: StoryEvent): string {
  const id = event.t === "call_start" ? event.id : event.t === "call_end" ? event.call.id : "";
  const text = event.t === "answer" ? event.message.content : event.t === "state" ? event.state : "";
  return `${event.n} ${event.t} ${id}${text}`;
}

async function rest(reader: StoryReader): Promise<StoryEvent[]> {
  const events: StoryEvent[] = [];
  for (let more = await reader.next(); more.length > 0; more = await reader.next()) events.push(...more);
  return events;
}

/** Writes a run at random: a step with calls at once, messages, units, changes, pauses, ends and kills. */
class RandomRun {
  readonly #int: (below: number) => number;
  readonly #dataDir: string;
  store: RunStore;
  #writer: RunWriter;
  #step = 1;
  #open: string[] = [];
  #calls: string[] = [];
  #answered = false;
  #heard: { role: "user"; content: string }[] = [];
  #pid = 7;

  constructor(seed: number) {
    this.#int = integers(seed);
    this.#dataDir = temporaryFolder();
    this.store = new RunStore(this.#dataDir);
    this.#writer = this.store.create(UUID);
    this.#writer.info(this.#info());
    this.#writer.meta({ v: 1, system_prompt: "p", tools: [] });
  }

  async act(): Promise<void> {
    const writer = this.#writer;
    switch (this.#int(9)) {
      case 0:
        return void (await writer.inbox.add({ kind: "input", ts: TS, text: `message ${this.#int(100)}` }));
      case 1:
        return writer.unit({ t: "announced", ts: TS, id: "u1" });
      case 2:
        return writer.change({ t: "notified", ts: TS });
      case 3:
        writer.info(this.#info({ is_paused: true }));
        return writer.info(this.#info());
      case 4:
        return this.#int(4) === 0 ? this.#resume() : undefined;
      default:
        return this.#work();
    }
  }

  async end(): Promise<void> {
    this.#writer.info(this.#info({ state: "dead", ended_at_ms: 5 }));
    await this.#writer.close();
  }

  /** Ends or kills the writer, and opens the run again. */
  async #resume(): Promise<void> {
    if (this.#int(2) === 0) await this.#writer.close();
    this.store = new RunStore(this.#dataDir);
    this.#writer = await this.store.reopen(UUID);
    this.#pid++;
    this.#writer.info(this.#info());
  }

  #work(): void {
    const [writer, step] = [this.#writer, this.#step];
    const id = `c${step}.${this.#calls.length}`;
    const ended = this.#open[0];
    if (!this.#answered) {
      if (this.#int(2) === 0) this.#heard.push({ role: "user", content: "go" });
      writer.journal({ ...answer(step), ...(this.#heard.length > 0 && { messages: this.#heard }) });
      this.#answered = true;
    } else if (this.#calls.length < 3) {
      // One is refused: it has no start.
      if (this.#calls.length !== 1)
        writer.journal({ ...callStart(step), id } as ReturnType<typeof callStart>);
      this.#calls.push(id);
      this.#open.push(id);
    } else if (ended !== undefined) {
      writer.journal({ ...callEnd(step), call: { ...callEnd(step).call, id: ended } });
      this.#open.shift();
    } else this.#record();
  }

  #record(): void {
    const calls = this.#calls.map((id) => ({ ...callEnd(this.#step).call, id }));
    const record = stepRecord(this.#step++);
    this.#writer.step({ ...record, messages: [...this.#heard, ...record.messages], tool_calls: calls });
    [this.#calls, this.#heard, this.#answered] = [[], [], false];
  }

  #info(more: Parameters<typeof procInfo>[0] = {}): ReturnType<typeof procInfo> {
    return procInfo({ uuid: UUID, pid: this.#pid, state: "running", ended_at_ms: null, ...more });
  }
}

describe("the story of a run", () => {
  test("is the same for a reader that is cut at random points, live and ended", async () => {
    for (let seed = 1; seed <= soak(8, 30); seed++) {
      const [run, int] = [new RandomRun(seed), integers(seed + 1_000)];
      const [whole, cut]: StoryEvent[][] = [[], []];
      let steady = new StoryReader(run.store, UUID);
      for (let i = 0; i < 120; i++) {
        await run.act();
        if (int(3) === 0) {
          whole?.push(...(await rest(steady)));
          steady = new StoryReader(run.store, UUID, steady.after);
        }
        if (int(10) > 0) continue;
        // The client has got some of the events when its connection ends.
        const got = await rest(new StoryReader(run.store, UUID, cut?.at(-1)?.n));
        cut?.push(...got.slice(0, int(got.length + 1)));
      }
      await run.end();
      whole?.push(...(await rest(new StoryReader(run.store, UUID, whole.at(-1)?.n))));
      cut?.push(...(await rest(new StoryReader(run.store, UUID, cut.at(-1)?.n))));
      const later = await rest(new StoryReader(run.store, UUID));
      const shorts = later.map(short);
      expect(whole?.map(short), `seed ${seed}`).toEqual(shorts);
      expect(cut?.map(short), `seed ${seed}`).toEqual(shorts);
      expect(
        later.map(({ n }) => n),
        `seed ${seed}`,
      ).toEqual(later.map((_, i) => i + 1));
    }
  });

  test("names the place where a line was left out, and reads records without numbers", async () => {
    const store = new RunStore(temporaryFolder());
    const writer = store.create(UUID);
    for (let step = 1; step <= 4; step++) writer.step(stepRecord(step));
    const path = join(writer.dir, "steps.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    for (const left of [0, 2]) {
      writeFileSync(path, lines.toSpliced(left, 1).join("\n"));
      const damage = new DamageCollector({ live: false });
      await rest(new StoryReader(store, UUID, 0, damage));
      expect(damage.list().map(damagedFileText)).toEqual(["lines are missing in one place"]);
    }
    writeFileSync(
      path,
      lines.map((line) => line.replace(/"n":.*?"step"/, '"step"').replace(/,"ns":.*?\]/, "")).join("\n"),
    );
    const old = await rest(new StoryReader(store, UUID));
    expect(old.map(({ t, n }) => `${t} ${n}`)).toEqual(
      Array(4).fill(["answer undefined", "step undefined"]).flat(),
    );
  });
});
