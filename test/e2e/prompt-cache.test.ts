import { expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { StepRecord } from "../../src/store/runs/schema.ts";
import type { Turn } from "../support/model-server/script.ts";
import type { ModelServer, RecordedRequest } from "../support/model-server/server.ts";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt } from "./support/verdict.ts";

/** The drivers that speak HTTP, each in what it speaks. */
const DIALECTS: Record<string, { driver: string; baseUrl(server: ModelServer): string; extra?: object }> = {
  "chat completions": { driver: "openai-compatible", baseUrl: (server) => server.openaiUrl },
  "OpenAI's chat completions": {
    driver: "openai",
    baseUrl: (server) => server.openaiUrl,
    extra: { api: "chat" },
  },
  Responses: { driver: "openai", baseUrl: (server) => server.openaiUrl, extra: { api: "responses" } },
  Messages: { driver: "anthropic", baseUrl: (server) => server.url },
  Gemini: { driver: "google", baseUrl: (server) => server.url },
};

/** Compacted at 80 percent of it. */
const WINDOW = 12_000;
const HELD = 5;
const STEPS = 24;

const print = (n: number): Turn =>
  bash(`for i in $(seq 1 150); do echo "line $i of what command ${n} prints"; done`);

/** Adds the size of the request to each answer, as a provider does. */
function withUsage(turn: Turn, { text }: RecordedRequest): Turn {
  return { ...turn, usage: { input_tokens: Math.ceil(text.length / 4), output_tokens: 10 } };
}

const isSummary = ({ text }: RecordedRequest): boolean => text.includes("[From rnix, not from the user]");

test.each(Object.entries(DIALECTS))(
  "in %s every request begins with the bytes of the one before, over steps, a suspension and a message; a compaction breaks that once",
  async (_title, { driver, baseUrl, extra }) => {
    await using machine = new Machine();
    let answers = 0;
    const server = await machine.model((request) => {
      if (isSummary(request)) return withUsage(says("Many lines were printed."), request);
      answers++;
      if (answers === HELD) return withUsage(bash("touch held; sleep 600"), request);
      return withUsage(answers < STEPS ? print(answers) : says("done"), request);
    });
    const entry = {
      driver,
      base_url: baseUrl(server),
      api_key_env: "OPENAI_API_KEY",
      default_model: "m",
      models: { m: { context_window: WINDOW } },
      extra,
    };
    machine.write(join(machine.configDir, "providers.yaml"), JSON.stringify({ providers: { mine: entry } }));
    const spawned = machine.start(["spawn", "print it all", "--provider", "mine", "--output", "json"]);
    await machine.held();
    const [, uuid = ""] =
      /"uuid":"([0-9a-f-]+)"/.exec((await machine.run(["ps", "--json"])).stdout.replaceAll('": "', '":"')) ??
      [];
    await machine.ok(["suspend", uuid]);
    expect((await spawned.done).code).toBe(75);
    const { stdout } = await machine.run(["resume", uuid, "and then the rest", "--output", "json"]);
    expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({ exit_code: 0, result: "done" });

    const steps = machine
      .read(join(".rnix/data/steps", uuid, "steps.jsonl"))
      .trimEnd()
      .split("\n")
      .map((line) => StepRecord.parse(JSON.parse(line)));
    const compacted = steps.filter(({ compactions = [] }) => compactions.length > 0).map(({ step }) => step);
    expect(compacted.length).toBeGreaterThan(1);
    expect(JSON.stringify(steps.at(HELD)?.messages)).toContain("and then the rest");

    const asked = server.requests.filter((request) => !isSummary(request)).map(partsOf);
    expect(asked).toHaveLength(STEPS);
    for (const { head } of asked) expect(head).toBe(asked[0]?.head ?? "");
    const broken = asked.flatMap(({ messages }, at) =>
      at > 0 && !begins(messages, asked[at - 1]?.messages ?? []) ? [at + 1] : [],
    );
    expect(broken).toEqual(compacted);

    // The request for a summary finds all of the conversation in the cache, too.
    for (const [at, request] of server.requests.entries()) {
      if (!isSummary(request)) continue;
      const before = partsOf(server.requests[at - 1] as RecordedRequest);
      expect(partsOf(request).head).toBe(before.head);
      expect(begins(partsOf(request).messages, before.messages)).toBe(true);
    }
    expect((await machine.run(["log", uuid])).stdout).toMatch(
      /conversation compacted from about \d+ to \d+ tokens/,
    );
  },
);

function begins(all: readonly string[], start: readonly string[]): boolean {
  return start.every((part, at) => all[at] === part);
}

/**
 * What a provider's cache compares, in its order: the tools and the head of the prompt; then the messages, part by part
 * with its role. Cache marks are left out.
 */
function partsOf({ body }: RecordedRequest): { head: string; messages: string[] } {
  const { tools, system, instructions, systemInstruction, messages, input, contents } = Body.parse(body);
  const head = JSON.stringify([tools, system, instructions, systemInstruction], unmarked);
  const items = messages ?? input ?? contents ?? [];
  return {
    head,
    messages: items.flatMap((item) => {
      const { role, content, parts, ...rest } = Item.parse(item);
      const said = Array.isArray(content) ? content : Array.isArray(parts) ? parts : [content];
      return said.map((part) => JSON.stringify([role, part, rest], unmarked));
    }),
  };
}

function unmarked(key: string, value: unknown): unknown {
  return key === "cache_control" ? undefined : value;
}

const Body = z.looseObject({
  tools: z.unknown().optional(),
  system: z.unknown().optional(),
  instructions: z.unknown().optional(),
  systemInstruction: z.unknown().optional(),
  messages: z.array(z.unknown()).optional(),
  input: z.array(z.unknown()).optional(),
  contents: z.array(z.unknown()).optional(),
});
const Item = z.looseObject({
  role: z.string().optional(),
  content: z.unknown().optional(),
  parts: z.unknown().optional(),
});
