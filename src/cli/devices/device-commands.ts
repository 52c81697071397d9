/** Finds the commands that plugins bring, and makes them of what the plugins declare: each action is one call. */

import type { CommandAction, CommandArgument, CommandFlag, CommandSpec } from "../../plugin/index.ts";
import { type Command, defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import {
  bool,
  choice,
  choiceList,
  type Flag,
  type Flags,
  json,
  list,
  noDaemon,
  one,
  text,
} from "../flags.ts";
import { type ConnectOptions, type Io, project, withSession } from "../io.ts";
import { printJsonTable } from "../output/json-table.ts";
import { jsonText } from "../output/print.ts";
import { target } from "../processes/target.ts";
import { type CallTarget, callForResult } from "./direct-call.ts";

/** Which names a plugin's command may have. */
const NAME = /^[a-z][a-z0-9-]{0,31}$/;

/** What a name that is no built-in command leads to. */
export interface Found {
  command?: Command;
  /** Plugins that were left out: one of them may have the command. */
  notices: string[];
}

/** The commands of the stock plugins, without asking a daemon. */
export async function stockDeviceCommands(): Promise<[string, Command][]> {
  const { stockCommands } = await import("../../server/offline-commands.ts");
  return (await stockCommands()).map((spec) => [spec.name, deviceCommand(spec)]);
}

/**
 * The command of this name in the project. `args`: the words after the name. A mistyped name starts no daemon, unless
 * there are plugins that may have the command: then the daemon is asked, which the call needs anyway.
 */
export async function findDeviceCommand(io: Io, name: string, args: readonly string[]): Promise<Found> {
  if (!NAME.test(name)) return { notices: [] };
  const { hasOwnPlugins, stockCommands } = await import("../../server/offline-commands.ts");
  const isStock = (await stockCommands()).some((stock) => stock.name === name);
  // Help and a call inside this command need no daemon.
  const isOffline = args.some((arg) => ["--no-daemon", "--help", "-h"].includes(arg));
  const o = isOffline ? { inside: true } : {};
  // The user may have mistyped a built-in command: why the project can't be read is no answer to that.
  const mayBeOwn = !isStock && (await hasOwnPlugins(project(io)));
  const listed = isStock ? await ask(io, o) : mayBeOwn ? await ask(io, o).catch(() => undefined) : undefined;
  const spec = listed?.commands.find((one) => one.name === name);
  return { command: spec && deviceCommand(spec), notices: listed?.notices ?? [] };
}

function ask(io: Io, o: ConnectOptions): Promise<{ commands: CommandSpec[]; notices: string[] }> {
  return withSession(io, o, async (session) =>
    (await session.connect()).request("list_commands", project(io)),
  );
}

/** `rnix NAME ACTION …`; without an action, the default one. */
export function deviceCommand(spec: CommandSpec): Command {
  const actions = Object.entries(spec.actions).map(
    ([word, action]) => [word, actionCommand(action)] as const,
  );
  const main = actions.find(([word]) => word === spec.default)?.[1];
  return {
    flags: {},
    ...main,
    about: spec.summary,
    examples: Object.assign({}, ...actions.map(([, { examples }]) => examples)),
    subcommands: Object.fromEntries(actions),
  };
}

function actionCommand(action: CommandAction): Command {
  const { args = [], flags = {}, summary, example, example_about = summary } = action;
  return defineCommand<Flags>({
    about: summary,
    args: args.map(({ name, summary: about, required, rest }) => ({
      name,
      about,
      optional: !required,
      many: rest !== undefined && rest !== false,
    })),
    flags: {
      ...Object.fromEntries(Object.entries(flags).map(([name, flag]) => [name, flagOf(flag)])),
      json,
      "no-daemon": noDaemon,
    },
    examples: { [example]: example_about },
    run: (io, values, given) => call(io, action, values, given),
  });
}

/** Makes the call, and prints its result. */
async function call(
  io: Io,
  { args = [], flags = {}, call: called, input, text_input, output = "text" }: CommandAction,
  values: Record<string, unknown>,
  given: readonly string[],
): Promise<number> {
  const fields = {
    ...input,
    ...(values.json !== true && text_input),
    ...argumentsOf(args, given),
    ...flagsOf(flags, values),
  };
  const wanted: CallTarget = { ...called, input: fields, run: await runOf(io, args, given) };
  return callForResult(io, wanted, values["no-daemon"] === true, (result) => {
    const value = parsed(result);
    if (values.json === true) io.stdout.write(jsonText(value === undefined ? result : value));
    else if (output !== "text") printJsonTable(io, value, output);
    else io.stdout.write(result === "" || result.endsWith("\n") ? result : `${result}\n`);
  });
}

function argumentsOf(args: readonly CommandArgument[], given: readonly string[]): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [place, arg] of args.entries()) {
    const words = given.slice(place);
    const [word] = words;
    if (word === undefined) break;
    if (arg.type === "run") continue;
    const field = arg.field ?? fieldOf(arg.name);
    if (arg.rest === "text") fields[field] = words.join(" ");
    else if (arg.rest) fields[field] = words.map((one) => argumentValue(arg, one));
    else fields[field] = argumentValue(arg, word);
  }
  return fields;
}

/** The run that the call is about, if the action has an argument for it. Inside a run, it is this run. */
async function runOf(
  io: Io,
  args: readonly CommandArgument[],
  given: readonly string[],
): Promise<CallTarget["run"]> {
  const at = args.findIndex(({ type }) => type === "run");
  if (at < 0) return undefined;
  const word = given[at];
  if (word !== undefined) return target(io, word);
  const { isInsideRun } = await import("../../server/daemon/inside-run.ts");
  return isInsideRun(io.env) ? undefined : "last";
}

function argumentValue({ name, type }: CommandArgument, word: string): string | number {
  const value = type === "number" ? numberIn(word) : word;
  if (value !== undefined) return value;
  throw usageError(`${name}: expected a number, got ${JSON.stringify(word)}`);
}

/** Flags that were not given are no fields. */
function flagsOf(
  flags: Record<string, CommandFlag>,
  values: Record<string, unknown>,
): Record<string, unknown> {
  const given = Object.entries(flags).flatMap(([name, { type, field }]): [string, unknown][] => {
    const value = values[name];
    const isGiven = type === "list" ? Array.isArray(value) && value.length > 0 : value !== undefined;
    return isGiven && value !== false ? [[field ?? fieldOf(name), value]] : [];
  });
  return Object.fromEntries(given);
}

/** The input field of an argument or a flag that names none. */
function fieldOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_");
}

function flagOf({ type, summary, values }: CommandFlag): Flag<unknown> {
  switch (type) {
    case "boolean":
      return bool(summary);
    case "number":
      return one(summary, "N", {}, "a number", numberIn);
    case "list":
      return values === undefined ? list(summary, "TEXT") : choiceList(summary, values);
    case "string":
      return values === undefined ? text(summary, "TEXT") : choice(summary, values);
  }
}

function numberIn(word: string): number | undefined {
  return word.trim() !== "" && Number.isFinite(Number(word)) ? Number(word) : undefined;
}

/** undefined: the text is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
