/** `rnix steps`: lists the steps of a process or prints one in full. */

import type { StepDetail, StepSummary, Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { bool, json } from "../flags.ts";
import type { Io, Wire } from "../io.ts";
import { damageText } from "../output/damage.ts";
import { formatBytes, formatCount, formatElapsed, printable } from "../output/format.ts";
import { messageText } from "../output/message.ts";
import { print } from "../output/print.ts";
import { promptText } from "../output/prompt.ts";
import type { Style } from "../output/style.ts";
import { fields, table } from "../output/table.ts";
import { RECORD_FROM, RUN_ARGUMENT, withRecordedRun } from "../processes/target.ts";
import { verdictLine } from "../questions/question-text.ts";

const PAGE = 1000;

export default defineCommand({
  about: "List the steps of a process, or print one in full",
  args: [RUN_ARGUMENT, { name: "N", about: "the step to print in full", optional: true }],
  flags: {
    json,
    ...RECORD_FROM,
    prompt: bool("print what the model was sent for step N: system prompt, tools, messages"),
  },
  examples: {
    "rnix steps": "one line for each step of the last run",
    "rnix steps 3 2": "step 2: messages, tool calls with their input and result",
    "rnix steps 3 2 --prompt": "the whole prompt that step 2 answers, as it was sent",
  },
  run(io, flags, [pid, n]) {
    const step = n === undefined ? undefined : stepNumber(n);
    if (flags.prompt && step === undefined)
      throw usageError("--prompt needs N: the step whose prompt to print");
    return withRecordedRun(io, flags.record, pid, async (wire, of) => {
      if (step === undefined) {
        const steps = await all(io, wire, of);
        return print(io, flags, steps, (style) => summaries(io, steps, style));
      }
      if (flags.prompt) {
        const prompt = await wire.request("get_step_prompt", { ...of, step });
        return print(io, flags, prompt, (style) => promptText(prompt, style));
      }
      const detail = await wire.request("get_step_detail", { ...of, step });
      for (const { problem } of detail.kept_results) if (problem) io.stderr.write(`${problem}\n`);
      return print(io, flags, detail, (style) => whole(detail, style));
    });
  },
});

async function all(io: Io, wire: Wire, of: Target): Promise<StepSummary[]> {
  const listed: StepSummary[] = [];
  for (;;) {
    const after = listed.at(-1)?.step;
    const { steps, damaged } = await wire.request("list_steps", { ...of, after, limit: PAGE, changed: true });
    if (listed.length === 0) io.stderr.write(damageText(damaged));
    listed.push(...steps);
    if (steps.length < PAGE) return listed;
  }
}

function summaries(io: Io, steps: StepSummary[], style: Style): string {
  const lines = ({ changed }: StepSummary): string =>
    changed ? `+${changed.added} -${changed.removed}` : "";
  return table(
    steps,
    [
      { title: "STEP", value: ({ step }) => String(step), right: true },
      { title: "ACTION", value: ({ action }) => action, leftOut: 1 },
      { title: "TOKENS", value: ({ token_count }) => formatCount(token_count), right: true, leftOut: 2 },
      { title: "TIME", value: ({ duration_ms }) => formatElapsed(duration_ms), right: true, leftOut: 3 },
      { title: "LINES", value: lines, leftOut: 4, when: steps.some(({ changed }) => changed) },
      { title: "DID", value: ({ did }) => did, flexible: 30 },
    ],
    io.stdout,
    style,
  );
}

function whole(detail: StepDetail, style: Style): string {
  const { step, ts, action, usage, tokens_used } = detail;
  const head = fields(
    [
      ["step", String(step)],
      ["time", ts],
      ["action", action],
      ["tokens", `${usage.input_tokens} in, ${usage.output_tokens} out, ${tokens_used} in all`],
    ],
    style,
  );
  const thoughts = detail.reasoning ? `\n${style.bold("thoughts")}\n${printable(detail.reasoning)}\n` : "";
  const messages = detail.messages.map((message) => messageText(message, style));
  const kept = new Map(detail.kept_results.map((one) => [one.id, one]));
  const calls = detail.tool_calls.map((call) => {
    const { name, path, state, duration_ms, result, error, error_code, asked = [] } = call;
    const found = kept.get(call.id);
    const title = style.bold(`${name} ${path ?? ""}`);
    const lines = [
      `${title} ${style.dim(`${state}, ${formatElapsed(duration_ms)}`)}`,
      ...asked.map((one) => verdictLine(one, style)),
      error === null ? printable(result ?? "") : style.red(`${error_code ?? ""} ${printable(error)}`),
      found ? style.dim(`whole, ${formatBytes(found.bytes)}: ${found.path}\n`) : "",
    ];
    return `\n${lines.join("\n")}`;
  });
  const made = (detail.compactions ?? []).map((one) => compaction(one, style));
  return `${head}${made.join("")}${thoughts}${messages.join("")}${calls.join("")}`;
}

/** The compactions before the step. Earlier steps have the replaced messages. */
function compaction(one: NonNullable<StepDetail["compactions"]>[number], style: Style): string {
  const { tokens_before, tokens_after, cut, summary } = one;
  const title = `compacted from about ${formatCount(tokens_before)} to ${formatCount(tokens_after)} tokens`;
  const shorter = cut.map(({ at, content }) => `message ${at + 1} is now: ${printable(content)}\n`);
  const instead = summary
    ? `messages 1 to ${summary.to} are now:\n${printable(summary.message.content)}\n`
    : "";
  return `\n${style.bold(title)}\n${shorter.join("")}${instead}`;
}

function stepNumber(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < 1) {
    throw usageError(`N: expected the number of a step, 1 or more, got ${JSON.stringify(text)}`);
  }
  return number;
}
