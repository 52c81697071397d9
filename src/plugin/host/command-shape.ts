/** The zod schema of a plugin's commands, and what in them does not fit the plugin. */

import { z } from "zod";
import { suggestion } from "../../config/files/suggestion.ts";
import type { CommandSpec } from "../index.ts";

const MAX_SUMMARY = 200;
const name = z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, {
  error: "expected a lowercase letter, then at most 31 lowercase letters, digits and hyphens",
});
const line = z
  .string()
  .regex(/^[^\p{Cc}\p{Zl}\p{Zp}]+$/u, { error: "expected one line" })
  .max(MAX_SUMMARY);
const field = z.string().min(1).optional();

const Argument = z.strictObject({
  name: line,
  summary: line,
  type: z.enum(["string", "number", "run"]).optional(),
  required: z.boolean().optional(),
  rest: z.union([z.boolean(), z.literal("text")]).optional(),
  field,
});

const Flag = z.strictObject({
  type: z.enum(["string", "boolean", "number", "list"]),
  summary: line,
  values: z.array(line).min(1).optional(),
  field,
});

const Table = z.strictObject({
  rows: field,
  columns: z
    .array(
      z.strictObject({
        title: line,
        field: z.string().min(1),
        as: z.enum(["text", "time", "age", "count", "usd", "tokens"]).optional(),
      }),
    )
    .min(1),
  empty: line.optional(),
});

const Action = z.strictObject({
  summary: line,
  example: line,
  example_about: line.optional(),
  args: z.array(Argument).optional(),
  flags: z.record(name, Flag).optional(),
  call: z.union([z.strictObject({ tool: z.string() }), z.strictObject({ path: z.string() })], {
    error: "expected { tool } or { path }",
  }),
  input: z.record(z.string(), z.unknown()).optional(),
  text_input: z.record(z.string(), z.unknown()).optional(),
  output: z.union([z.literal("text"), Table]).optional(),
});

export const CommandShape = z.strictObject({
  name,
  summary: line,
  actions: z.record(name, Action),
  default: name.optional(),
});

/** Flags that each command has. */
const RESERVED_FLAGS = ["json", "no-daemon", "help"];

interface Commands {
  commands?: readonly CommandSpec[];
  devices?: Record<string, { tools?: readonly { name: string }[] }>;
}

/** What in the commands is wrong beyond their form. */
export function commandProblems({ commands = [], devices = {} }: Commands): string[] {
  const tools = Object.values(devices).flatMap((device) => (device.tools ?? []).map((tool) => tool.name));
  const problems: string[] = [];
  for (const [index, command] of commands.entries()) {
    const at = `commands[${index}] (${command.name})`;
    const actions = Object.keys(command.actions);
    if (actions.length === 0) problems.push(`${at}: expected at least one action`);
    if (commands.slice(0, index).some((other) => other.name === command.name))
      problems.push(`${at}: the name is used twice`);
    if (command.default !== undefined && !actions.includes(command.default))
      problems.push(
        `${at}: default names the action "${command.default}", which it does not have.${suggestion(command.default, actions)}`,
      );
    for (const [word, { args = [], flags = {}, call }] of Object.entries(command.actions)) {
      const here = `${at}, action ${word}`;
      for (const flag of RESERVED_FLAGS.filter((one) => Object.hasOwn(flags, one)))
        problems.push(`${here}: the flag --${flag} exists for all commands`);
      if (args.filter(({ type }) => type === "run").length > 1)
        problems.push(`${here}: a call is about one run, so one argument has the type "run"`);
      for (const [place, arg] of args.entries()) {
        if (arg.rest && place < args.length - 1)
          problems.push(`${here}: ${arg.name} takes all further arguments, so it must be the last`);
        if (arg.required && args[place - 1] && !args[place - 1]?.required)
          problems.push(`${here}: ${arg.name} is required, but not the argument before it`);
      }
      if ("tool" in call && !tools.includes(call.tool))
        problems.push(
          `${here}: call names the tool "${call.tool}", which the plugin does not have.${suggestion(call.tool, tools)}`,
        );
      if ("path" in call && !Object.keys(devices).some((path) => `${call.path}/`.startsWith(`${path}/`)))
        problems.push(`${here}: call names the path ${call.path}, which is none of the plugin's devices`);
    }
  }
  return problems;
}
