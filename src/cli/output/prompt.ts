/** Formats the prompt of a step. */

import type { AppliedCompaction, StepPrompt } from "../../protocol/methods.ts";
import { formatCount, plural, printable } from "./format.ts";
import { messageText } from "./message.ts";
import type { Style } from "./style.ts";
import { fields } from "./table.ts";

/** The prompt of one step, in the order in which the model reads it. */
export function promptText(prompt: StepPrompt, style: Style): string {
  const { step, provider, model, effort, compactions, system_prompt, tools, output_schema, messages } =
    prompt;
  const head = fields(
    [
      ["step", String(step)],
      ["model", `${provider} ${model}`],
      ...(effort === null ? [] : [["effort", effort] as const]),
      ["messages", String(messages.length)],
      ...(compactions.length === 0
        ? []
        : [["compacted", compactions.map(compactionText).join("\n")] as const]),
    ],
    style,
  );
  const section = (title: string, text: string): string => `\n${style.bold(title)}\n${text}\n`;
  const listed = tools.map(({ name, description, input }) => {
    const schema = JSON.stringify(input, null, 2);
    return `${style.cyan(name)} ${printable(description)}\n${style.dim(printable(schema))}`;
  });
  return [
    head,
    section("system", printable(system_prompt)),
    tools.length === 0 ? "" : section("tools", listed.join("\n")),
    output_schema === null ? "" : section("output schema", printable(JSON.stringify(output_schema, null, 2))),
    ...messages.map((message) => messageText(message, style)),
  ].join("");
}

function compactionText(one: AppliedCompaction): string {
  const { step, tokens_before, tokens_after, truncated, replaced, summary_by } = one;
  const what = [
    ...(replaced === 0 ? [] : [`a summary (${summary_by}) for ${plural(replaced, "message")}`]),
    ...(truncated === 0 ? [] : [`${plural(truncated, "message")} truncated`]),
  ].join(", ");
  return `before step ${step}: about ${formatCount(tokens_before)} to ${formatCount(tokens_after)} tokens; ${what}`;
}
