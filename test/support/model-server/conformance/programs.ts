import { describe, expect, test } from "bun:test";
import claude from "../../../../plugins/claude/index.ts";
import cursor from "../../../../plugins/cursor/index.ts";
import type { Code, Plugin, ToolService } from "../../../../src/plugin/index.ts";
import { CliStage } from "../../../plugins/programs/cli-stage.ts";
import { failure } from "../../failure.ts";
import { until } from "../../until.ts";
import { ask } from "../device.ts";
import type { Findings } from "./findings.ts";

/** A driver over a program; what the program says is recorded, and a stand-in says it again. */
interface ProgramDriver {
  title: string;
  plugin: Plugin;
  program: string;
  recorded: { answer: string; refused?: string; quota?: string };
  /** The recorded program tells how many tokens it has used. */
  counts: boolean;
  help?: { help: string; version: string };
}

export const PROGRAM_DRIVERS: readonly ProgramDriver[] = [
  {
    title: "claude",
    plugin: claude,
    program: "claude",
    recorded: {
      answer: "claude-answer.jsonl",
      refused: "claude-refused.jsonl",
      quota: "claude-quota.jsonl",
    },
    counts: true,
    help: { help: "claude-help.txt", version: "2.1.329 (Claude Code)" },
  },
  {
    title: "cursor",
    plugin: cursor,
    program: "cursor-agent",
    recorded: { answer: "cursor-answer.jsonl" },
    counts: false,
  },
];

export const PROGRAMS = {
  answer: "an answer: text, why it stopped",
  usage: "what it has used, where the program tells it",
  refused: "a key that is refused, where the program tells it apart",
  quota: "a quota that is used up, where the program tells it apart",
  broken: "a program that ends without an answer",
  missing: "a program that is not there",
  hang: "given up: the program is ended",
} as const;

type Environment = Record<string, string>;

const tools: ToolService = {
  list: async () => [],
  call: async () => ({ text: "Error NOT_FOUND: no such tool", error: "NOT_FOUND" }),
};

export function describePrograms(driver: ProgramDriver, findings: Findings): void {
  for (const stream of [true, false])
    describe(stream ? "streamed" : "in one piece", () => programs(driver, findings, stream));
}

function programs(driver: ProgramDriver, findings: Findings, stream: boolean): void {
  const { title, recorded } = driver;
  const look = stream ? "streamed" : "in one piece";
  const asked = (content: string) => ({ stream, messages: [{ role: "user" as const, content }] });

  test(PROGRAMS.answer, async () => {
    await using stage = stageOf(driver);
    const { answer } = await askOn(stage, asked("hi"));
    expect(answer).toMatchObject({
      content: "hello from the model",
      tool_calls: [],
      stop_reason: "end_turn",
    });
    findings.note(PROGRAMS.answer, title, look);
    expect(answer.usage.output_tokens > 0).toBe(driver.counts);
    if (driver.counts) findings.note(PROGRAMS.usage, title, look);
    else findings.without(PROGRAMS.usage, title);
  });

  const fails = (row: string, content: string, code: Code, retryable: boolean, env?: Environment) =>
    test(`${row}: ${code}`, async () => {
      await using stage = stageOf(driver, env);
      const error = await failure(askOn(stage, asked(content)));
      expect(`${error.code}: ${error.message}`).toStartWith(`${code}: `);
      expect(error.retryable).toBe(retryable);
      const again = retryable ? "yes" : "no";
      findings.note(row, title, look, { code: `\`${error.code}\``, "may be asked again": again });
    });

  if (recorded.refused === undefined) findings.without(PROGRAMS.refused, title);
  else fails(PROGRAMS.refused, "please refuse", "PERMISSION", false);
  if (recorded.quota === undefined) findings.without(PROGRAMS.quota, title);
  else fails(PROGRAMS.quota, "please wait", "EXHAUSTED", true);
  fails(PROGRAMS.broken, "please fail", "UNAVAILABLE", true);
  const nowhere = { PATH: "/nowhere", HOME: "/nowhere" };
  fails(PROGRAMS.missing, "hi", "UNAVAILABLE", false, nowhere);

  test(`${PROGRAMS.hang}: CANCELLED`, async () => {
    await using stage = stageOf(driver);
    const controller = new AbortController();
    const failed = failure(askOn(stage, asked("please hang"), controller.signal));
    await until(() => stage.running > 0);
    controller.abort();
    const { code } = await failed;
    expect(code).toBe("CANCELLED");
    await until(() => stage.running === 0);
    findings.note(PROGRAMS.hang, title, look, { code: `\`${code}\``, "may be asked again": "no" });
  });
}

/** The driver on the answers that were recorded of its program. */
function stageOf({ plugin, title, program, recorded, help }: ProgramDriver, env?: Environment): CliStage {
  const device = plugin.devices?.[`/dev/llm/${title}`];
  if (device === undefined) throw new Error(`the plugin ${plugin.name} has no device for ${title}`);
  const { answer, refused, quota } = recorded;
  const answers = {
    "please hang": "hang" as const,
    ...(refused === undefined ? {} : { "please refuse": { recorded: refused, code: 1 } }),
    ...(quota === undefined ? {} : { "please wait": { recorded: quota, code: 1 } }),
    "please fail": { recorded: "", code: 1, errors: "no idea" },
    "": { recorded: answer },
  };
  return new CliStage(device, [program, answers, help], { tools, ...(env && { env }) });
}

async function askOn(
  stage: CliStage,
  what: Parameters<typeof ask>[1],
  signal?: AbortSignal,
): ReturnType<typeof ask> {
  const file = await stage.open();
  try {
    return await ask(file, what, signal);
  } finally {
    await file.close();
  }
}
