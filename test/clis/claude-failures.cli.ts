/** What Rnix makes of the failures of the claude CLI and of its model server. */

import { describe, expect, test } from "bun:test";
import { providersDocument, withTables, writeProvidersDocument } from "../docs/providers-document.ts";
import { processesOf } from "../e2e/support/leftovers.ts";
import type { Fault, Turn } from "../support/model-server/script.ts";
import { ClaudeMachine, report } from "./support.ts";

const done: Turn = { text: "Done." };

describe("a failure of the claude CLI", () => {
  const fault = (status: number, more: Partial<Extract<Fault, { kind: "status" }>> = {}): Turn => ({
    fault: { kind: "status", status, ...more },
  });
  const failures: {
    title: string;
    turn: Turn;
    code: string;
    /** How often Rnix asks again. */
    again?: 1;
    /** How often the CLI itself asks, each time. */
    own?: number;
  }[] = [
    { title: "a refused key", turn: fault(401), code: "PERMISSION" },
    { title: "a forbidden one", turn: fault(403), code: "PERMISSION" },
    // The CLI itself asks twice.
    { title: "an unknown model", turn: fault(404), code: "NOT_FOUND", own: 2 },
    {
      title: "a conversation that is too long",
      turn: fault(400, { message: "prompt is too long: 300000 tokens > 200000 maximum" }),
      code: "INVALID",
    },
    {
      title: "a wrong request",
      turn: fault(400, { message: "no such thing" }),
      code: "INVALID",
      // The CLI itself asks for the same in other forms.
      own: 3,
    },
    { title: "no credit", turn: fault(402, { code: "billing_error" }), code: "EXHAUSTED" },
    { title: "a server that is down", turn: fault(500), code: "UNAVAILABLE", again: 1 },
    { title: "an overloaded one", turn: fault(529), code: "UNAVAILABLE", again: 1 },
    {
      title: "a cut answer",
      turn: { text: "half of", fault: { kind: "cut" } },
      code: "UNAVAILABLE",
      again: 1,
    },
    {
      title: "an answer that ends early",
      turn: { text: "half of", fault: { kind: "end_early" } },
      code: "UNAVAILABLE",
      again: 1,
    },
    {
      title: "an error in the stream",
      turn: { text: "half of", fault: { kind: "error_event", code: "overloaded_error" } },
      code: "UNAVAILABLE",
      again: 1,
    },
    {
      title: "an error where the answer should be",
      turn: { fault: { kind: "error_body", code: "overloaded_error" } },
      code: "DRIVER",
      again: 1,
    },
    { title: "garbage", turn: { fault: { kind: "garbage" } }, code: "DRIVER", again: 1 },
  ];
  const found: string[][] = [];
  for (const { title, turn, code, again = 0, own = 1 } of failures) {
    test(`of ${title} fails with ${code}, and only Rnix retries it`, async () => {
      await using machine = new ClaudeMachine();
      machine.config({ model_retries: 1 });
      const model = await machine.scripted(() => turn);
      const receipt = report(await machine.spawn(["fail"]));
      expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "llm_error", error: { code } });
      expect(model.requests.length).toBe(own * (1 + again));
      found.push([
        title,
        `\`${code}\``,
        model.requests.length > own ? "once" : "no",
        `${receipt.exit_code} \`${receipt.exit_reason}\``,
      ]);
    });
  }

  test("of too many requests is retried at its time", async () => {
    await using machine = new ClaudeMachine();
    const model = await machine.scripted([fault(429, { headers: { "retry-after": "1" } }), done]);
    expect(report(await machine.spawn(["hello"]))).toMatchObject({ exit_code: 0, result: "Done." });
    expect(model.requests.length).toBe(2);
  });

  test("of an unreachable server is UNAVAILABLE", async () => {
    await using machine = new ClaudeMachine();
    await machine.scripted([]);
    const nowhere = { ANTHROPIC_BASE_URL: "http://nowhere.invalid" };
    const run = await machine.spawn(["hello"], { env: nowhere });
    expect(report(run)).toMatchObject({ exit_reason: "llm_error", error: { code: "UNAVAILABLE" } });
  });

  test("of a silent server is TIMEOUT, and the CLI ends", async () => {
    await using machine = new ClaudeMachine();
    machine.config({ model_idle_timeout: "5s" });
    await machine.scripted([{ text: "I begin, and", fault: { kind: "hang_midway" } }]);
    const run = await machine.spawn(["hello"]);
    expect(report(run)).toMatchObject({ exit_reason: "llm_error", error: { code: "TIMEOUT" } });
    expect(processesOf(machine.root)).toEqual([]);
  });

  test("of a model that refuses, and of an endless answer, has their verdicts", async () => {
    for (const [stop, reason] of [
      ["refusal", "failed"],
      ["max_tokens", "llm_error"],
    ] as const) {
      await using machine = new ClaudeMachine();
      await machine.scripted(() => ({ text: "I will not", stop }));
      expect(report(await machine.spawn(["hello"]))).toMatchObject({ exit_code: 1, exit_reason: reason });
    }
  });

  test("has the table of docs/providers.md (UPDATE_DOCS=1 writes it; it takes the whole run)", () => {
    const head = ["what goes wrong", "code", "asked again", "the run, if it stays"];
    const table = [head, head.map(() => "---"), ...found]
      .map((cells) => `| ${cells.join(" | ")} |`)
      .join("\n");
    const document = providersDocument();
    const fresh = withTables(document, { claude: table });
    if (process.env.UPDATE_DOCS === "1") writeProvidersDocument(fresh);
    else expect(fresh).toBe(document);
  });
});
