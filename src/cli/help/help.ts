/** The help of `rnix` and of its commands, rendered by citty. It is loaded only when help is asked for. */

import { type ArgDef, type ArgsDef, type CommandDef, renderUsage } from "citty";
import type { Command } from "../command.ts";
import { COMMANDS, DEVICES, loadCommands } from "../commands.ts";
import type { Io } from "../io.ts";
import { type Style, styleOf } from "../output/style.ts";

/** Columns of a line in a pipe, and the most at a terminal. */
const PIPE_COLUMNS = 80;
const MAX_COLUMNS = 100;
/** Names up to this width have their text on the same line. */
const NAME_COLUMNS = 24;
const GAP = 2;

/** The list of all commands. */
export async function rootHelp(io: Io): Promise<string> {
  const style = styleOf(io, io.stdout);
  const columns = columnsOf(io);
  const commands = new Map(await loadCommands());
  const root = {
    about: "An operating system for AI agents",
    args: [{ name: "command", about: "One of the commands below, with its own flags" }],
    flags: {},
  };
  const usage = await render(definition("rnix", root), undefined, style);
  const groups = Map.groupBy(commands.keys(), (name) => COMMANDS[name]?.group ?? DEVICES);
  const lists = [...groups].map(([group, names]) => {
    const list = names.map((name): Row => [style.cyan(name), commands.get(name)?.about ?? ""]);
    return section(group.toUpperCase(), rows(list, columns), style);
  });
  const examples = section("EXAMPLES", ROOT_EXAMPLES.map((line) => `  ${line}`).join("\n"), style);
  const more = `Use ${style.cyan("rnix <command> --help")} for a command's flags and examples.\n`;
  return `${fitted(usage, columns)}${lists.join("")}${examples}${more}`;
}

/** The help of one command. `words`: its name, two words for a subcommand. */
export async function commandHelp(words: string[], command: Command, io: Io): Promise<string> {
  const style = styleOf(io, io.stdout);
  const columns = columnsOf(io);
  const name = words.at(-1) ?? "";
  const parent = { meta: { name: ["rnix", ...words.slice(0, -1)].join(" ") } };
  const usage = await render(definition(name, command), parent, style);
  const examples = Object.entries(command.examples)
    .map(([line, about]) => `  ${line}\n${style.dim(wrapped(about, 6, columns))}`)
    .join("\n");
  const notes = (command.notes ?? []).map((note) => `${wrapped(note, 0, columns)}\n\n`).join("");
  return `${fitted(usage, columns)}${notes}${section("EXAMPLES", examples, style)}`;
}

const ROOT_EXAMPLES = [
  "rnix demo                         a complete run, no key, no network",
  "rnix setup                        choose a model, enter its key, in a minute",
  "rnix                              talk with an agent: the same as rnix chat",
  'rnix "explain this project"       run an agent, asking as rnix chat does',
  'rnix "fix it" --check "npm test"  the check decides whether it succeeded',
  "rnix log                          what the last run did",
];

/** Our definition in the form that citty renders. */
function definition(
  name: string,
  { about, args = [], flags, subcommands = {} }: Pick<Command, "about" | "args" | "flags" | "subcommands">,
): Definition {
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
  const named = Object.entries(subcommands).map(([name, { about: description }]) => [
    name,
    { meta: { name, description } },
  ]);
  return {
    meta: { name, description: about },
    args: Object.fromEntries([...positionals, ...options]),
    ...(named.length > 0 && { subCommands: Object.fromEntries(named) }),
  };
}

type Definition = CommandDef<ArgsDef>;

async function render(command: Definition, parent: Definition | undefined, style: Style): Promise<string> {
  const text = await renderUsage(command, parent);
  // citty checks neither the terminal nor every value of NO_COLOR.
  return style.bold("x") === "x" ? Bun.stripANSI(text) : text;
}

function section(title: string, body: string, style: Style): string {
  return `${style.bold(title)}\n\n${body}\n\n`;
}

/** A name, which may be coloured, and its meaning. */
type Row = [name: string, about: string];

function columnsOf({ stdout }: Io): number {
  return stdout.isTTY ? Math.min(stdout.columns, MAX_COLUMNS) : PIPE_COLUMNS;
}

/** The text of citty in lines that fit: citty knows no width, and aligns names at their right. */
function fitted(text: string, columns: number): string {
  const lines = text.split("\n").map((line) => line.trim());
  const blocks: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const list: Row[] = [];
    for (let row = rowOf(lines[at]); row !== null; row = rowOf(lines[++at])) list.push(row);
    if (list.length > 0) blocks.push(rows(list, columns));
    blocks.push(wrapped(lines[at] ?? "", 0, columns));
  }
  return blocks.join("\n").replace(/\n*$/, "\n\n");
}

/** citty puts four spaces between a name and its text. */
function rowOf(line = ""): Row | null {
  const [, name, about] = /^(\S.*?) {4}(\S.*)$/.exec(line) ?? [];
  return name === undefined || about === undefined ? null : [name, about];
}

/** Names in one column and their texts in the next; a wide name has its text below it. */
function rows(list: readonly Row[], columns: number): string {
  const hasShort = list.some(([name]) => /^-\w, /.test(Bun.stripANSI(name)));
  const named = list.map(([name, about]): Row => {
    return [hasShort && Bun.stripANSI(name).startsWith("--") ? `    ${name}` : name, about];
  });
  const widths = named.map(([name]) => Bun.stringWidth(name)).filter((width) => width <= NAME_COLUMNS);
  const indent = Math.max(0, ...widths) + 2 * GAP;
  return named
    .map(([name, about]) => {
      const text = wrapped(about, indent, columns);
      const left = indent - GAP - Bun.stringWidth(name);
      const gap = left < GAP ? `\n${" ".repeat(indent)}` : " ".repeat(left);
      return `${" ".repeat(GAP)}${name}${gap}${text.slice(indent)}`;
    })
    .join("\n");
}

/** The text in lines of whole words, each indented. */
function wrapped(text: string, indent: number, columns: number): string {
  const width = Math.max(NAME_COLUMNS, columns - indent);
  return Bun.wrapAnsi(text, width).replaceAll(/^(?=.)/gm, " ".repeat(indent));
}
