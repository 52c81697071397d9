/** Reads the arguments of the shell's `spawn`: an intent, and run options as the flags of `rnix spawn`. */

import { parseArgs } from "node:util";
import { parseDuration } from "../lib/duration.ts";
import { messageOf } from "../lib/error-detail.ts";
import { issueText } from "../lib/issue-text.ts";
import { splitToolRules } from "../lib/tool-rules.ts";
import { flagNameOf, optionOf } from "../options/option-list.ts";
import type { RunOption } from "../options/run-option.ts";
import { SyscallError } from "../plugin/errors.ts";
import { AGENT_RUN_OPTIONS, AgentOptions } from "../workflows/messages.ts";

/** Flags by the names of the options; a label is for lists. */
const NAMES = new Map<string, string>([
  ...AGENT_RUN_OPTIONS.map((name): [string, string] => [flagNameOf(name), name]),
  ["check", "check"],
  ["label", "label"],
]);
const OPTIONS = Object.fromEntries(
  [...NAMES.keys()].map((flag) => [flag, { type: "string" as const, multiple: true }]),
);

/** Fails with INVALID for a wrong flag, and without an intent. */
export function readSpawn(args: readonly string[]): { intent: string; options: AgentOptions } {
  try {
    const { values, positionals, tokens } = parseArgs({
      args: [...args],
      options: OPTIONS,
      allowPositionals: true,
      strict: false,
      tokens: true,
    });
    for (const token of tokens) if (token.kind === "option") requireFlag(token);
    const given = Object.entries(values).map(([flag, texts]) => {
      const name = NAMES.get(flag) ?? flag;
      return [name, valueOfFlag(name, Array.isArray(texts) ? texts.map(String) : [])];
    });
    const { data, error } = AgentOptions.safeParse(Object.fromEntries(given));
    if (error) throw new SyscallError("INVALID", issueText(error));
    const intent = positionals.join(" ");
    if (intent.trim() === "") throw new SyscallError("INVALID", "expected what the agent is to do");
    return { intent, options: data };
  } catch (thrown) {
    throw new SyscallError("INVALID", `spawn: ${messageOf(thrown)}`, { cause: thrown });
  }
}

/** The messages of the parser name flags of its own. */
function requireFlag(token: { name: string; rawName: string; value?: string; inlineValue?: boolean }): void {
  const { name, rawName, value, inlineValue } = token;
  if (!NAMES.has(name)) {
    const known = [...NAMES.keys()].map((flag) => `--${flag}`).join(", ");
    throw new SyscallError("INVALID", `unknown flag ${rawName}; expected one of ${known}`);
  }
  if (value === undefined || (!inlineValue && value.startsWith("-")))
    throw new SyscallError(
      "INVALID",
      `${rawName}: expected a value; write ${rawName}=VALUE if it begins with -`,
    );
}

function valueOfFlag(name: string, texts: string[]): unknown {
  const last = texts.at(-1) ?? "";
  const known = [...AGENT_RUN_OPTIONS, "check" as const].find((one) => one === name);
  if (known === undefined) return last;
  const { kind, setting }: RunOption = optionOf(known);
  switch (kind) {
    case "list":
      return texts;
    case "rules":
      return texts.flatMap(splitToolRules);
    case "schema":
      return JSON.parse(last);
    case "count":
    case "limit":
      if (last === "unlimited") return last;
      return setting?.measure === "duration" ? parseDuration(last) : Number(last);
    default:
      return last;
  }
}
