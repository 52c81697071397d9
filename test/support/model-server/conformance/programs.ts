import { describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import claude from "../../../../plugins/claude/index.ts";
import cursor from "../../../../plugins/cursor/index.ts";
import {
  type Code,
  O_RDWR,
  type OpenContext,
  type Plugin,
  type ToolService,
} from "../../../../src/plugin/index.ts";
import { standIn } from "../../../plugins/programs/stand-in.ts";
import { openContext, type RealContext } from "../../open-context.ts";
import { until } from "../../until.ts";
import { ask, failureOf } from "../device.ts";
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
    await using stage = new Stage(driver);
    const { answer } = await stage.ask(asked("hi"));
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

  const fails = (
    row: string,
    content: string,
    code: Code,
    retryable: boolean,
    more: Partial<OpenContext> = {},
  ) =>
    test(`${row}: ${code}`, async () => {
      await using stage = new Stage(driver, more);
      const error = await failureOf(stage.ask(asked(content)));
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
  const nowhere = { env: { PATH: "/nowhere", HOME: "/nowhere" } };
  fails(PROGRAMS.missing, "hi", "UNAVAILABLE", false, nowhere);

  test(`${PROGRAMS.hang}: CANCELLED`, async () => {
    await using stage = new Stage(driver);
    const controller = new AbortController();
    const failed = failureOf(stage.ask(asked("please hang"), controller.signal));
    await until(() => stage.running > 0);
    controller.abort();
    const { code } = await failed;
    expect(code).toBe("CANCELLED");
    await until(() => stage.running === 0);
    findings.note(PROGRAMS.hang, title, look, { code: `\`${code}\``, "may be asked again": "no" });
  });
}

/** A folder with the stand-in on its PATH, and a context in which it really runs. */
class Stage implements AsyncDisposable {
  readonly #driver: ProgramDriver;
  readonly #root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-programs-")));
  readonly #real: RealContext;

  constructor(driver: ProgramDriver, more: Partial<OpenContext> = {}) {
    const { answer, refused, quota } = driver.recorded;
    const answers = {
      "please hang": "hang" as const,
      ...(refused === undefined ? {} : { "please refuse": { recorded: refused, code: 1 } }),
      ...(quota === undefined ? {} : { "please wait": { recorded: quota, code: 1 } }),
      "please fail": { recorded: "", code: 1, errors: "no idea" },
      "": { recorded: answer },
    };
    this.#driver = driver;
    standIn(this.#root, driver.program, answers, driver.help);
    const env = { PATH: `${this.#root}:/usr/bin:/bin`, HOME: this.#root };
    const secret = async () => "the-key";
    this.#real = openContext(this.#root, join(this.#root, "kept"), { env, secret, tools, ...more });
  }

  /** Programs under way. */
  get running(): number {
    return this.#real.children.list().length;
  }

  async ask(what: Parameters<typeof ask>[1], signal?: AbortSignal): ReturnType<typeof ask> {
    const { plugin, title } = this.#driver;
    const device = plugin.devices?.[`/dev/llm/${title}`];
    if (device === undefined) throw new Error(`the plugin ${plugin.name} has no device for ${title}`);
    const file = await device.factory("", O_RDWR, this.#real.context);
    try {
      return await ask(file, what, signal);
    } finally {
      await file.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // What has exited is looked after for a moment.
    await until(() => this.running === 0);
    await this.#real[Symbol.asyncDispose]();
    rmSync(this.#root, { recursive: true, force: true });
  }
}
