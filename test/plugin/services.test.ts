import { expect } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunInfo, SyscallError } from "../../src/plugin/index.ts";
import { driverSearch } from "../../src/server/records/driver-search.ts";
import { PluginStore } from "../../src/store/plugin-store.ts";
import { RecordKey } from "../../src/store/runs/record-key.ts";
import { SearchIndex } from "../../src/store/search/search-index.ts";
import { failAtTheEnd } from "../support/at-the-end.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { openContext, type RealContext } from "../support/open-context.ts";

/**
 * The services as a driver has them, in the kernel's thread and in a process of its own alike: real programs, a real store.
 * Each place has a context of its own, so that neither finds what the other has left.
 */
const DEVICE = "/dev/services";
const RUN: RunInfo = {
  uuid: "",
  pid: 1,
  parent_uuid: null,
  kind: "agent",
  agent: "default",
  intent: "do it",
  provider: "openai",
  model: "m",
  cwd: "/project",
  project: "/project",
  created_at_ms: 0,
  ended_at_ms: 1,
  exit_code: 0,
  exit_reason: "completed",
};
const missing = async (): Promise<never> => {
  throw new SyscallError("NOT_FOUND", "There is no such job.");
};
const NO_JOBS = {
  add: missing,
  remove: missing,
  enable: missing,
  disable: missing,
  run: missing,
  history: missing,
};
const places: { kept: string; real: RealContext; index: SearchIndex }[] = [];

describePlugin("services", () => import("./support/services.ts"), {
  entry: join(import.meta.dir, "support/services.ts"),
  setup: (dir) => {
    const kept = mkdtempSync(join(tmpdir(), "rnix-services-"));
    const real = openContext(dir, kept);
    const index = new SearchIndex({ key: RecordKey.temporary(), warn: failAtTheEnd });
    places.push({ kept, real, index });
    const scopes = { run: join(kept, "run"), project: join(kept, "project"), user: join(kept, "user") };
    return {
      exec: real.context.exec,
      store: new PluginStore({ plugin: "services", ...scopes }),
      secret: async () => "the key",
      access: async (paths, also = []) => paths.map((path) => (path === "/b" ? `not ${also}` : null)),
      search: driverSearch(
        { index, userDataDir: join(kept, "user"), projects: () => [], dataDirs: () => [] },
        "services",
        {
          dir,
          dataDir: join(kept, "project"),
        },
      ),
      history: {
        runs: async ({ uuid = "", parent, limit }) => [
          { ...RUN, uuid, parent_uuid: parent ?? null, pid: limit },
        ],
        steps: async (uuid, after, max) => {
          if (uuid === "none") throw new SyscallError("NOT_FOUND", "There is no such run.");
          return [{ step: after + 1, max }];
        },
      },
      schedule: {
        ...NO_JOBS,
        next: async ({ expression, count }) => ({ instants: Array(count).fill(expression), warnings: [] }),
        list: async () => [],
      },
      ask: {
        ask: async ([first]) => {
          if (!first) throw new SyscallError("INVALID", "No question.");
          return { answers: [{ question: first.question, answer: [JSON.stringify(first)] }], by: "user" };
        },
      },
      llm: {
        ask: async (request) => {
          if (request.prompt === "") throw new SyscallError("EXHAUSTED", "The budget is used.");
          return {
            text: JSON.stringify(request),
            usage: { input_tokens: 1, output_tokens: 2, cached_tokens: 0 },
          };
        },
      },
      tools: {
        list: async () => [{ name: "Echo", description: "Echo", input: { type: "object" } }],
        call: async (name, input) => {
          if (name === "Ended") throw new SyscallError("CLOSED", "The model is not being asked.");
          if (name === "Echo") return { text: String(input.text) };
          return { text: `Error NOT_FOUND: no ${name}`, error: "NOT_FOUND" };
        },
      },
    };
  },
  teardown: async () => {
    for (const { kept, real, index } of places.splice(0)) {
      await index.close();
      await real.endCall();
      expect(real.children.list()).toEqual([]);
      await real[Symbol.asyncDispose]();
      rmSync(kept, { recursive: true });
    }
  },
  operations: [
    {
      title: "exec starts a program, writes to it, and returns its output by stream and its end",
      device: DEVICE,
      input: { op: "exec", argv: ["sh", "-c", "cat; echo wrong >&2; exit 3"] },
      answer: (answer) =>
        expect(JSON.parse(answer)).toEqual({
          streams: { 1: "from stdin", 2: "wrong\n" },
          code: 3,
          signal: null,
          timedOut: false,
        }),
    },
    {
      title: "exec of a program that is not there keeps its code",
      device: DEVICE,
      input: { op: "exec", argv: ["no-such-program-anywhere"] },
      error: "NOT_FOUND",
    },
    {
      title: "store replaces a document by its version, and scopes are apart",
      device: DEVICE,
      input: { op: "document", doc: "a/b.txt" },
      answer: (answer) => expect(JSON.parse(answer)).toEqual({ text: "two", current: true, missing: null }),
    },
    {
      title: "store refuses a document that has changed since",
      device: DEVICE,
      input: { op: "stale", doc: "stale.txt" },
      error: "INVALID",
    },
    {
      title: "store refuses a name that leads out of it",
      device: DEVICE,
      input: { op: "document", doc: "../out" },
      error: "INVALID",
    },
    {
      title: "store appends to a log and pages through it",
      device: DEVICE,
      input: { op: "log", doc: "log" },
      answer: (answer) => expect(JSON.parse(answer)).toEqual([{ n: 2 }]),
    },
    {
      title: "tools lists the process's own and calls them; one that fails says so in its answer",
      device: DEVICE,
      input: { op: "tools", doc: "hello" },
      answer: (answer) =>
        expect(JSON.parse(answer)).toEqual([
          ["Echo"],
          { text: "hello" },
          { text: "Error NOT_FOUND: no Nothing", error: "NOT_FOUND" },
        ]),
    },
    {
      title: "tools outside of the model's answer keeps its code",
      device: DEVICE,
      input: { op: "no tools" },
      error: "CLOSED",
    },
    {
      title: "llm asks the process's model",
      device: DEVICE,
      input: { op: "llm", doc: "hello" },
      answer: (answer) => {
        const { text, usage } = JSON.parse(answer);
        expect(JSON.parse(text)).toEqual({ prompt: "hello", system: "short", max_output: 5 });
        expect(usage).toEqual({ input_tokens: 1, output_tokens: 2, cached_tokens: 0 });
      },
    },
    {
      title: "llm keeps the code of a budget that is used",
      device: DEVICE,
      input: { op: "no llm" },
      error: "EXHAUSTED",
    },
    {
      title: "access decides files by the rules",
      device: DEVICE,
      input: { op: "access", doc: "Read" },
      answer: (answer) => expect(JSON.parse(answer)).toEqual([[null, "not Read"], [null]]),
    },
    {
      title: "history finds runs and reads their steps",
      device: DEVICE,
      input: { op: "history", doc: "0199" },
      answer: (answer) =>
        expect(JSON.parse(answer)).toEqual([
          [{ ...RUN, uuid: "0199", parent_uuid: null, pid: 2 }],
          [{ ...RUN, uuid: "", parent_uuid: "0199", pid: 3 }],
          [{ step: 8, max: 9 }],
        ]),
    },
    {
      title: "history of a run that is not there keeps its code",
      device: DEVICE,
      input: { op: "no history" },
      error: "NOT_FOUND",
    },
    {
      title: "search indexes documents and finds them",
      device: DEVICE,
      input: { op: "search", doc: "alpha beta" },
      answer: (answer) =>
        expect(JSON.parse(answer)).toEqual([
          [{ source: "file", version: "1" }],
          [
            {
              kind: "document",
              scope: "project",
              collection: "notes",
              source: "file",
              id: "a",
              snippet: "alpha beta",
              score: expect.any(Number),
              time_ms: 7,
              fields: {},
            },
          ],
        ]),
    },
    {
      title: "search refuses a name that is no collection",
      device: DEVICE,
      input: { op: "no search", doc: "../out" },
      error: "INVALID",
    },
    {
      title: "schedule answers for an expression, and lists jobs",
      device: DEVICE,
      input: { op: "schedule", doc: "@daily" },
      answer: (answer) =>
        expect(JSON.parse(answer)).toEqual([{ instants: ["@daily", "@daily"], warnings: [] }, []]),
    },
    {
      title: "schedule of a job that is not there keeps its code",
      device: DEVICE,
      input: { op: "no schedule", doc: "nightly" },
      error: "NOT_FOUND",
    },
    {
      title: "ask brings the questions to the user, and the reply back",
      device: DEVICE,
      input: { op: "ask", doc: "which?" },
      answer: (answer) => {
        const asked = { question: "which?", options: [{ label: "a", description: "b" }], default: "a" };
        expect(JSON.parse(answer)).toEqual({
          answers: [{ question: "which?", answer: [JSON.stringify(asked)] }],
          by: "user",
        });
      },
    },
    {
      title: "ask without a question keeps its code",
      device: DEVICE,
      input: { op: "no ask" },
      error: "INVALID",
    },
    {
      title: "secret answers the key",
      device: DEVICE,
      input: { op: "secret" },
      answer: (answer) => expect(answer).toBe('"the key"'),
    },
  ],
});
