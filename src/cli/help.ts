import { type ArgsDef, type CommandDef, renderUsage } from "citty";
import type { Command } from "./command.ts";
import { COMMANDS, loadCommands } from "./commands.ts";
import type { Flags } from "./flags.ts";
import type { Io } from "./io.ts";
import { type Style, styleOf } from "./output/style.ts";

/** Loaded when help is asked for and at no other time: citty is not on the way of any command. */
export async function rootHelp(io: Io): Promise<string> {
  const style = styleOf(io, io.stdout);
  const commands = new Map(await loadCommands());
  const usage = await render(
    {
      meta: { name: "rnix", description: "An operating system for AI agents" },
      args: {
        command: {
          type: "positional",
          description: "One of the commands below, with its own flags",
          required: true,
        },
      },
    },
    undefined,
    style,
  );
  const groups = Map.groupBy(Object.entries(COMMANDS), ([, entry]) => entry.group);
  const lists = [...groups].map(([group, entries]) => {
    const rows = entries.flatMap(([name]): [string, string][] => [[name, commands.get(name)?.about ?? ""]]);
    return section(group.toUpperCase(), columns(rows, style), style);
  });
  return `${usage}${lists.join("")}${section("EXAMPLES", ROOT_EXAMPLES.map((line) => `  ${line}`).join("\n"), style)}Use ${style.cyan("rnix <command> --help")} for a command's flags and examples.\n`;
}

/** `words`: the command's name, of two words for a subcommand. */
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
  "rnix demo                                                  a complete run, no key, no network",
  'rnix spawn "fix the failing test" --check "npm test"       run an agent; the check decides',
  "rnix ps                                                    the running processes",
];

/** Our definitions as citty knows them. */
function definition(name: string, command: Command): CommandDef<ArgsDef> {
  const subcommands = Object.entries(command.subcommands ?? {});
  return {
    meta: { name, description: command.about },
    args: { ...argumentsOf(command), ...flagsOf(command.flags) },
    ...(subcommands.length === 0
      ? {}
      : {
          subCommands: Object.fromEntries(
            subcommands.map(([word, sub]) => [word, { meta: { name: word, description: sub.about } }]),
          ),
        }),
  };
}

function argumentsOf(command: Command): ArgsDef {
  return Object.fromEntries(
    (command.args ?? []).map(({ name, about, optional, many }) => [
      many ? `${name}…` : name,
      { type: "positional" as const, description: about, required: !optional },
    ]),
  );
}

function flagsOf(flags: Flags): ArgsDef {
  return Object.fromEntries(
    Object.entries(flags)
      .filter(([, flag]) => !flag.hidden)
      .map(([name, { about, short, takesValue, hint }]) => {
        const common = { description: about, ...(short === undefined ? {} : { alias: short }) };
        return [
          name,
          takesValue
            ? { type: "string" as const, ...common, ...(hint === undefined ? {} : { valueHint: hint }) }
            : { type: "boolean" as const, ...common },
        ];
      }),
  );
}

async function render(
  command: CommandDef<ArgsDef>,
  parent: CommandDef<ArgsDef> | undefined,
  style: Style,
): Promise<string> {
  const text = await renderUsage(command, parent);
  // citty looks at neither the terminal nor every value of NO_COLOR, and fills its columns up with spaces.
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
