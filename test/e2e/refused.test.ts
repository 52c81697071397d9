import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Machine, type RunOptions } from "./support/machine.ts";
import { says } from "./support/scenes.ts";
import { refusal } from "./support/verdict.ts";

interface Case {
  args: string[];
  code: 64 | 69;
  /** The error's stable code. */
  error: "INVALID" | "NOT_FOUND" | "UNAVAILABLE" | "PERMISSION";
  /** What is wrong, and what to do. */
  says: (string | RegExp)[];
  options?: RunOptions;
}

const NOTHING_TO_FIND: RunOptions = {
  env: {
    OPENAI_BASE_URL: undefined,
    OPENAI_API_KEY: undefined,
    ANTHROPIC_BASE_URL: undefined,
    ANTHROPIC_API_KEY: undefined,
    GOOGLE_GEMINI_BASE_URL: undefined,
    GEMINI_API_KEY: undefined,
    RNIX_PROVIDER: undefined,
    RNIX_MODEL: undefined,
  },
};

/** Mistakes that are found before a run begins, and so cost nothing. */
const CASES: Record<string, Case> = {
  "an unknown agent": {
    args: ["do it", "--agent", "codr"],
    code: 64,
    error: "NOT_FOUND",
    says: ['"codr"', "coder"],
  },
  "an unknown provider": {
    args: ["do it", "--provider", "opnai"],
    code: 64,
    error: "NOT_FOUND",
    says: ['"opnai"', "openai"],
  },
  "an unknown provider in the environment": {
    args: ["do it"],
    code: 64,
    error: "NOT_FOUND",
    says: ['"unknown"'],
    options: { env: { RNIX_PROVIDER: "unknown" } },
  },
  "an unknown tool to allow": {
    args: ["do it", "--allow", "Raed"],
    code: 64,
    error: "INVALID",
    says: ["Raed", "Read"],
  },
  "an unknown tool to deny": {
    args: ["do it", "--deny", "bash(rm *)"],
    code: 64,
    error: "INVALID",
    says: ["bash", "Bash"],
  },
  "no provider anywhere": {
    args: ["do it"],
    code: 69,
    error: "UNAVAILABLE",
    says: ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "rnix demo"],
    options: NOTHING_TO_FIND,
  },
  "a provider whose key is missing": {
    args: ["do it", "--provider", "anthropic"],
    code: 69,
    error: "UNAVAILABLE",
    says: ["ANTHROPIC_API_KEY", ".config/rnix/env"],
    options: { env: { ANTHROPIC_API_KEY: undefined } },
  },
  "a provider whose key is empty, as a pipeline has it where a secret is not set": {
    args: ["do it", "--provider", "anthropic"],
    code: 69,
    error: "UNAVAILABLE",
    says: ["ANTHROPIC_API_KEY"],
    options: { env: { ANTHROPIC_API_KEY: "" } },
  },
  // Its server lists no models, either.
  "a provider without a model": {
    args: ["do it", "--provider", "openai-compatible"],
    code: 64,
    error: "INVALID",
    says: ["--model"],
    options: { env: { RNIX_MODEL: undefined, OPENAI_BASE_URL: "http://127.0.0.1:1/v1" } },
  },
  "a sandbox that is required": {
    args: ["do it", "--sandbox", "required"],
    code: 69,
    error: "UNAVAILABLE",
    says: ["sandbox", "--sandbox auto"],
    options: { env: { PATH: "/nonexistent" } },
  },
  "a file to add that is not there": {
    args: ["do it", "--add", "none.txt"],
    code: 64,
    error: "INVALID",
    says: ["none.txt"],
  },
  "a folder that is not there": {
    args: ["do it", "--cwd", "nowhere"],
    code: 64,
    error: "INVALID",
    says: ["--cwd", "nowhere"],
  },
  "an intent of nothing but spaces": {
    args: [" "],
    code: 64,
    error: "INVALID",
    says: ["INTENT"],
  },
  "an agent that declares checks in a project that is not trusted": {
    args: ["do it", "--agent", "checked"],
    code: 64,
    error: "INVALID",
    says: ["checked", "rnix trust"],
  },
  "an agent with a mistake in its file": {
    args: ["do it", "--agent", "typo"],
    code: 64,
    error: "INVALID",
    says: [/agents\/typo\/agent\.yaml:3:1/, "allowed_tols", "allowed_tools"],
  },
};

describe("a run is refused before it costs anything, with the receipt's exit code and what to do", () => {
  let machine: Machine;
  beforeAll(async () => {
    machine = new Machine();
    await machine.play({ "do it": [says("done")] });
    machine.agent("checked", "name: checked\ndescription: C\nchecks: [make test]\n", "Do.\n");
    machine.agent("typo", "name: typo\ndescription: T\nallowed_tols: [Read]\n", "Do.\n");
  });
  afterAll(() => machine[Symbol.asyncDispose]());

  for (const [what, { args, code, error, says, options }] of Object.entries(CASES)) {
    for (const where of [[], ["--no-daemon"]]) {
      test([what, ...where].join(" "), async () => {
        const { receipt, stderr } = await refusal(machine, [...args, ...where], options);
        expect(receipt.exit_code).toBe(code);
        expect(receipt.exit_reason).toBe(code === 64 ? "usage" : "unavailable");
        expect(receipt.error?.code).toBe(error);
        for (const part of says) {
          expect(receipt.error?.message).toMatch(part);
          expect(stderr).toMatch(part);
        }
      });
    }
  }

  test("as jsonl: exactly one error", async () => {
    const { stdout, code } = await machine.run(["spawn", "do it", "--agent", "codr", "--output", "jsonl"]);
    expect(code).toBe(64);
    expect(stdout.trimEnd().split("\n")).toHaveLength(1);
    expect(JSON.parse(stdout)).toMatchObject({
      type: "error",
      payload: { event: "error", code: "NOT_FOUND" },
    });
  });

  test("as text: nothing on stdout", async () => {
    const { stdout, code } = await machine.run(["spawn", "do it", "--agent", "codr"]);
    expect({ stdout, code }).toEqual({ stdout: "", code: 64 });
  });
});

describe("unknown or wrong flags are named with what was expected, and nothing is started", () => {
  const WRONG: Record<string, { args: string[]; says: string[] }> = {
    "an unknown flag": { args: ["spawn", "x", "--agnet", "default"], says: ["--agnet", "--agent"] },
    "a cost of zero": {
      args: ["spawn", "x", "--max-cost", "0"],
      says: ["--max-cost", "USD", "unlimited", '"0"'],
    },
    "steps of zero": { args: ["spawn", "x", "--max-steps", "0"], says: ["--max-steps", "unlimited", '"0"'] },
    "a negative budget": { args: ["spawn", "x", "--budget=-5"], says: ["--budget", '"-5"'] },
    "a time without a unit": {
      args: ["spawn", "x", "--timeout", "soon"],
      says: ["--timeout", "10m", '"soon"'],
    },
    "an output that is none": {
      args: ["spawn", "x", "--output", "xml"],
      says: ["--output", "jsonl", '"xml"'],
    },
    "a value twice": { args: ["spawn", "x", "--agent", "a", "--agent", "b"], says: ["--agent", "2 times"] },
    "a variable without a value": { args: ["spawn", "x", "--env", "A"], says: ["--env", "A is not set"] },
    "two intents": { args: ["spawn", "x", "y"], says: ["INTENT", '"x y"'] },
    "no intent": { args: ["spawn"], says: ["INTENT"] },
    "an empty intent": { args: ["spawn", " "], says: ["INTENT"] },
    "an unknown command": { args: ["spwan", "x"], says: ["spwan", "spawn"] },
  };
  let machine: Machine;
  beforeAll(() => {
    machine = new Machine();
  });
  afterAll(() => machine[Symbol.asyncDispose]());

  for (const [what, { args, says }] of Object.entries(WRONG)) {
    test(what, async () => {
      const { code, stdout, stderr } = await machine.run(args);
      expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
      for (const part of says) expect(stderr).toContain(part);
      expect(stderr).toContain("--help");
      expect(machine.daemonPid).toBeNull();
      expect(machine.leftovers()).toEqual([]);
    });
  }
});

test("a mistake in the user's config.yaml is named with line and column by every way to run", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] });
  const file = machine.write(join(machine.configDir, "config.yaml"), "grace: 1s\ntool_timeout: fast\n");
  for (const where of [[], ["--no-daemon"]]) {
    const { code, stderr } = await machine.run(["spawn", "do it", ...where]);
    expect(code).toBe(64);
    expect(stderr).toContain(`${file}:2:15`);
    expect(stderr).toContain('"fast"');
  }
});
