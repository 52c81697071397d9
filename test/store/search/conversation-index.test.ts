import { describe, expect, onTestFinished, test } from "bun:test";
import { appendFileSync, cpSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SearchQuery } from "../../../src/plugin/index.ts";
import { driverSearch } from "../../../src/server/records/driver-search.ts";
import { realFs } from "../../../src/store/files/fs-port.ts";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { RunStore, type RunWriter } from "../../../src/store/runs/run-store.ts";
import type { ProcInfo, StepRecord } from "../../../src/store/runs/schema.ts";
import { SearchIndex } from "../../../src/store/search/search-index.ts";
import { procInfo } from "../../support/samples.ts";
import { until } from "../../support/until.ts";
import { stepRecord } from "../samples.ts";
import { temporaryFolder } from "../support.ts";

class Place {
  readonly dir = temporaryFolder();
  readonly project = join(this.dir, "project");
  readonly dataDir = join(this.project, ".rnix/data");
  readonly key = RecordKey.open(join(this.dir, "record.key"));
  readonly store = new RunStore(this.dataDir, realFs, this.key);
  readonly #other = join(this.dir, "other");
  #runs = 0;

  /** A run with these steps; it is still alive. */
  run(texts: readonly (string | Partial<StepRecord>)[], more: Partial<ProcInfo> = {}): RunWriter {
    const uuid = `019a0000-0000-7000-8000-${(++this.#runs).toString(16).padStart(12, "0")}`;
    const writer = this.store.create(uuid);
    writer.info(procInfo({ uuid, pid: this.#runs, project: this.project, ...more }));
    for (const [at, text] of texts.entries()) {
      const said = typeof text === "string" ? text : "";
      writer.step({ ...stepRecord(at + 1, said), ...(typeof text === "string" ? {} : text) });
    }
    return writer;
  }

  /** The service of a new process. */
  search() {
    const index = new SearchIndex({
      key: this.key,
      warn: (text) => {
        throw new Error(text);
      },
    });
    onTestFinished(() => index.close());
    const find = async (text: string, more: Partial<SearchQuery> = {}) => {
      const service = driverSearch(
        {
          index,
          userDataDir: join(this.dir, "user"),
          projects: () => [{ dir: this.#other, data_dir: join(this.#other, ".rnix/data") }],
          dataDirs: () => [this.dataDir],
        },
        "memory",
        { dir: this.project, dataDir: this.dataDir },
      );
      return service.find({ text, runs: true, limit: 10, ...more });
    };
    /** The steps that match once all is indexed, which one search on a busy machine may leave to the next. */
    const steps = async (text: string, more: Partial<SearchQuery> = {}) => {
      await until(async () => (await find(text, more)).pending === 0, "all steps in the index");
      const { hits } = await find(text, more);
      return hits.map(({ run }) => `${run?.pid}:${run?.step}`);
    };
    return { index, find, steps };
  }
}

describe("the conversation of a run is found", () => {
  test("by what was said, called and answered, with its run", async () => {
    const place = new Place();
    const { uuid } = place.run(
      [
        "I look for the flaky test",
        {
          messages: [
            { role: "user", content: "Please fix the login" },
            { role: "system", content: "hidden instructions" },
          ],
          tool_calls: [
            {
              id: "c",
              name: "Bash",
              path: "/dev/shell",
              input: { command: "grep -rn kerberos src", options: ["deep", { depth: 7 }] },
              result: "src/auth.ts:12: negotiate()",
              error: null,
              error_code: null,
              started_at: "2026-11-20T00:00:00.000Z",
              duration_ms: 1,
              state: "done",
            },
          ],
        },
      ],
      { agent: "coder" },
    );
    const { find, steps } = place.search();
    const { hits, pending } = await find("flaky");
    expect(pending).toBe(0);
    expect(hits).toEqual([
      {
        kind: "run",
        collection: null,
        scope: null,
        source: uuid,
        id: "1",
        snippet: "I look for the flaky test",
        score: expect.any(Number),
        time_ms: Date.parse("2026-11-20T00:00:00.000Z"),
        fields: {},
        run: { uuid, pid: 1, agent: "coder", project: place.project, step: 1 },
      },
    ]);
    for (const text of ["login", "kerberos", "negotiate", "bash", "deep"])
      expect(await steps(text)).toEqual(["1:2"]);
    expect(await steps("instructions")).toEqual([]);
  });

  test("only where runs are asked for", async () => {
    const place = new Place();
    place.run(["alpha"]);
    expect((await place.search().find("alpha", { runs: false, collections: ["notes"] })).hits).toEqual([]);
  });

  test("by agent, project and time", async () => {
    const place = new Place();
    place.run([{ ...stepRecord(1, "alpha"), ts: "2026-01-01T00:00:00.000Z" }], { agent: "one" });
    place.run([{ ...stepRecord(1, "alpha"), ts: "2026-02-01T00:00:00.000Z" }], { agent: "two" });
    const { steps } = place.search();
    expect((await steps("alpha")).toSorted()).toEqual(["1:1", "2:1"]);
    expect(await steps("alpha", { agent: "two" })).toEqual(["2:1"]);
    expect(await steps("alpha", { since_ms: Date.parse("2026-01-15") })).toEqual(["2:1"]);
    expect(await steps("alpha", { until_ms: Date.parse("2026-01-15") })).toEqual(["1:1"]);
    expect((await steps("alpha", { project: place.project })).toSorted()).toEqual(["1:1", "2:1"]);
    expect(await steps("alpha", { project: join(place.dir, "other") })).toEqual([]);
    expect(await steps("alpha", { project: "/nowhere" })).toEqual([]);
  });

  test("in steps that came after the first search, while it is alive", async () => {
    const place = new Place();
    const writer = place.run(["alpha"]);
    const { steps } = place.search();
    expect(await steps("alpha")).toEqual(["1:1"]);
    writer.step(stepRecord(2, "beta"));
    expect(await steps("beta")).toEqual(["1:2"]);
    place.run(["gamma"]);
    expect(await steps("gamma")).toEqual(["2:1"]);
  });

  test("by another process, without reading the steps again", async () => {
    const place = new Place();
    place.run(["alpha"]);
    await place.search().steps("alpha");
    place.run(["alpha"]);
    expect((await place.search().steps("alpha")).toSorted()).toEqual(["1:1", "2:1"]);
  });

  test("in a long one, part by part, each step once", async () => {
    const place = new Place();
    place.run(Array.from({ length: 40 }, (_, at) => `step${at} ${"filler text ".repeat(3_000)}`));
    const { find, steps } = place.search();
    await until(async () => (await find("filler")).pending === 0);
    expect(await steps("step39")).toEqual(["1:40"]);
    expect(await steps("filler", { limit: 100 })).toHaveLength(40);
  });
});

describe("the conversation of a run is not found", () => {
  test("after the run was removed", async () => {
    const place = new Place();
    const { uuid } = place.run(["alpha"]);
    place.run(["alpha"]);
    const { steps } = place.search();
    expect(await steps("alpha")).toHaveLength(2);
    await place.store.remove(uuid);
    expect(await steps("alpha")).toEqual(["2:1"]);
    expect(await place.search().steps("alpha")).toEqual(["2:1"]);
  });

  test("when another user's Rnix, or a program, wrote it", async () => {
    const place = new Place();
    const foreign = new Place();
    const stranger = new RunStore(foreign.dataDir, realFs, RecordKey.temporary());
    const writer = stranger.create("019a0000-0000-7000-8000-00000000ffff");
    writer.info(procInfo({ uuid: writer.uuid }));
    writer.step(stepRecord(1, "alpha planted"));
    cpSync(foreign.dataDir, place.dataDir, { recursive: true });
    const own = place.run(["alpha own"]);
    appendFileSync(join(own.dir, "steps.jsonl"), `${JSON.stringify(stepRecord(2, "alpha forged"))}\n`);
    expect(await place.search().steps("alpha")).toEqual(["1:1"]);
  });

  test("in steps that a fork has from another run, because they are found there", async () => {
    const place = new Place();
    const { uuid } = place.run(["alpha"]);
    place.run([{ ...stepRecord(1, "alpha"), origin_uuid: uuid }, "beta"]);
    const { steps } = place.search();
    expect(await steps("alpha")).toEqual(["1:1"]);
    expect(await steps("beta")).toEqual(["2:2"]);
  });
});

describe("the index of conversations", () => {
  test("leaves out a torn line until it is whole, and lines that are damaged", async () => {
    const place = new Place();
    const writer = place.run(["alpha"]);
    const path = join(writer.dir, "steps.jsonl");
    appendFileSync(path, '{"damaged\n{"torn');
    const { steps } = place.search();
    expect(await steps("alpha")).toEqual(["1:1"]);
    const again = await place.store.reopen(writer.uuid);
    again.step(stepRecord(2, "beta"));
    expect(await steps("beta")).toEqual(["1:2"]);
  });

  test("shows what the record says now, and finds a replaced one again", async () => {
    const place = new Place();
    const one = place.run(["alpha first"]);
    const { steps, find } = place.search();
    expect(await steps("alpha")).toEqual(["1:1"]);
    const path = join(one.dir, "steps.jsonl");
    const writer = place.store.create("019a0000-0000-7000-8000-00000000000f");
    writer.info(procInfo({ uuid: writer.uuid }));
    rmSync(path);
    const other = new RunStore(place.dataDir, realFs, place.key);
    const replaced = await other.reopen(one.uuid);
    replaced.step(stepRecord(1, "beta second"));
    const { hits } = await find("alpha");
    expect(hits).toEqual([]);
    expect(await steps("beta")).toEqual(["1:1"]);
  });

  test("passes over what is no record: a folder, a link, a missing proc-info.json", async () => {
    const place = new Place();
    const one = place.run(["alpha"]);
    const two = place.run(["alpha"]);
    rmSync(join(one.dir, "proc-info.json"));
    writeFileSync(join(place.dataDir, "steps/notes.txt"), "no run");
    renameSync(join(two.dir, "steps.jsonl"), join(two.dir, "moved"));
    place.run(["alpha"]);
    expect(await place.search().steps("alpha")).toEqual(["3:1"]);
  });

  test("is rebuilt after it was deleted, also while it is open", async () => {
    const place = new Place();
    place.run(["alpha"]);
    const { steps } = place.search();
    await steps("alpha");
    rmSync(join(place.dir, "index"), { recursive: true });
    expect(await steps("alpha")).toEqual(["1:1"]);
    expect(readdirSync(join(place.dir, "index")).some((name) => name.endsWith(".db"))).toBe(true);
  });

  test("is the same for two processes that index at once", async () => {
    const place = new Place();
    for (let run = 0; run < 30; run++) place.run(["alpha one", "alpha two"]);
    const [one, two] = [place.search(), place.search()];
    await Promise.all([one.find("alpha"), two.find("alpha")]);
    expect(await one.steps("alpha", { limit: 100 })).toHaveLength(60);
    expect(await two.steps("alpha", { limit: 100 })).toHaveLength(60);
  });
});
