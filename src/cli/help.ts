/** The help of `rnix` and of its commands, rendered by citty. It is loaded only when help is asked for. */

import { type ArgDef, type ArgsDef, type CommandDef, renderUsage } from "citty";
import type { Command } from "./command.ts";
import { COMMANDS, DEVICES, loadCommands } from "./commands.ts";
import type { Io } from "./io.ts";
import { type Style, styleOf } from "./output/style.ts";

/** The list of all commands. */
export async function rootHelp(io: Io): Promise<string> {
  const style = styleOf(io, io.stdout);
  const commands = new Map(await loadCommands());
  const usage = await render(
    definition("rnix", {
      about: "An operating system for AI agents",
      args: [{ name: "command", about: "One of the commands below, with its own flags" }],
      flags: {},
    }),
    undefined,
    style,
  );
  const groups = Map.groupBy(commands.keys(), (name) => COMMANDS[name]?.group ?? DEVICES);
  const lists = [...groups].map(([group, names]) => {
    const rows = names.map((name): [string, string] => [name, commands.get(name)?.about ?? ""]);
    return section(group.toUpperCase(), columns(rows, style), style);
  });
  return `${usage}${lists.join("")}${section("EXAMPLES", ROOT_EXAMPLES.map((line) => `  ${line}`).join("\n"), style)}Use ${style.cyan("rnix <command> --help")} for a command's flags and examples.\n`;
}

/** The help of one command. `words`: its name, two words for a subcommand. */
export async function commandHelp(words: string[], command: Command, io: Io): Promise<string> {
  const style = styleOf(io, io.stdout);
  const name = words.at(-1) ?? "";
  const parent = { meta: { name: ["rnix", ...words.slice(0, -1)].join(" ") } };
  const usage = await render(definition(name, command), parent, style);
  const examples = command.examples
    .map(({ line, about }) => `  ${line}\n      ${style.dim(about)}`)
    .join("\n");
  const notes = (command.notes ?? []).map((note) => `${note}\n\n`).join("");
  return `${usage}${notes}${section("EXAMPLES", examples, style)}`;
}

const ROOT_EXAMPLES = [
  "rnix demo                         a complete run, no key, no network",
  "rnix setup                        choose a model, enter its key, in a minute",
  "rnix                              talk with an agent: the same as rnix chat",
  'rnix "explain this project"       run an agent: the same as rnix spawn "…"',
  'rnix "fix it" --check "npm test"  the check decides whether it succeeded',
  "rnix log                          what the last run did",
];

/** Our definition in the form that citty renders. */
function definition(
  name: string,
  { about, args = [], flags, subcommands = {} }: Pick<Command, "about" | "args" | "flags" | "subcommands">,
): CommandDef<ArgsDef> {
  const positionals = args.map(({ name, about, optional, many }): [string, ArgDef] => [
    many ? `${name}…` : name,
    { type: "positional", description: about, required: !optional },
  ]);
  const options = Object.entries(flags)
    .filter(([, { hidden }]) => !hidden)
    .map(([name, { about, short, takesValue, hint }]): [string, ArgDef] => [
      name,
      { type: takesValue ? "string" : "boolean", description: about, alias: short, valueHint: hint },
    ]);
  const named = Object.entries(subcommands).map(([name, { about }]) => [
    name,
    { meta: { name, description: about } },
  ]);
  return {
    meta: { name, description: about },
    args: Object.fromEntries([...positionals, ...options]),
    ...(named.length > 0 && { subCommands: Object.fromEntries(named) }),
  };
}

async function render(
  command: CommandDef<ArgsDef>,
  parent: CommandDef<ArgsDef> | undefined,
  style: Style,
): Promise<string> {
  const text = await renderUsage(command, parent);
  // citty checks neither the terminal nor every value of NO_COLOR, and pads its columns with spaces.
  return `${style.bold("x") === "x" ? Bun.stripANSI(text) : text}\n`
    .replace(/ +$/gm, "")
    .replace(/\n\n+$/, "\n\n");
}

function section(title: string, body: string, style: Style): string {
  return `${style.bold(title)}\n\n${body}\n\n`;
}

function columns(rows: [string, string][], style: Style): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, about]) => `  ${style.cyan(name.padEnd(width))}  ${about}`).join("\n");
}
