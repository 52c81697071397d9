/** Runs one command line. */

import { SyscallError } from "../plugin/errors.ts";
import type { Command } from "./command.ts";
import { COMMANDS } from "./commands.ts";
import { EXIT, exitCodeOf, usageError } from "./exit.ts";
import { didYouMean, json as jsonFlag, type Parsed, parse } from "./flags.ts";
import { type Io, noTerminal } from "./io.ts";

/** What the completion scripts call. It is no command of users. */
const COMPLETE = "__complete";

/** Runs one command line and returns the exit code. Every error ends here and is printed only here. */
export async function runCommandLine(argv: string[], io: Io): Promise<number> {
  const words: string[] = [];
  try {
    const code = await dispatch(argv, io, words);
    await io.stdout.drained();
    return code;
  } catch (error) {
    await report(error, io, words);
    return exitCodeOf(error);
  }
}

/** Adds each part of the command's name to `words`, for error messages. */
async function dispatch(argv: string[], io: Io, words: string[]): Promise<number> {
  const [first, ...args] = argv;
  if (first === undefined && noTerminal(io) === undefined && io.env.RNIX_UNIT === undefined)
    return dispatch(["chat"], io, words);
  if (first === undefined || first === "help" || first === "--help" || first === "-h") {
    return help(first === undefined ? io.stderr : io.stdout, first, args, io);
  }
  if (first === "--version" || first === "-v" || first === "-V") return dispatch(["version"], io, words);
  if (first === COMPLETE) {
    const { answerCompletion } = await import("./completion/answer.ts");
    return answerCompletion(io, args);
  }
  if (!Object.hasOwn(COMMANDS, first) && (await isIntent(argv))) {
    io.byHand = true;
    return dispatch(["spawn", ...argv], io, words);
  }
  const { command, rest: given } = await find(first, args, words, io);
  const rest = command.passes ? endFlags(given, command.flags) : given;
  if (asksForHelp(rest)) {
    const { commandHelp } = await import("./help/help.ts");
    io.stdout.write(await commandHelp(words, command, io));
    return EXIT.ok;
  }
  const parsed = await parse(rest, command.flags, command.explainFlag).catch(async (error: unknown) => {
    await command.refused?.(io, error, outputIn(rest));
    throw error;
  });
  const { run } = command;
  if (run !== undefined) {
    const code = await withHint(argv, words, parsed, () => run(io, parsed));
    if (code === EXIT.ok) await requireDocument(io, command, parsed);
    return code;
  }
  throw usageError(`expected one of ${Object.keys(command.subcommands ?? {}).join(", ")}`);
}

/** Half a JSON document is no answer. Lines of JSON are whole, and text is read as far as it goes (`| head`). */
async function requireDocument(io: Io, { flags }: Command, { values }: Parsed): Promise<void> {
  const isDocument =
    values.get("output")?.at(-1) === "json" || (values.has("json") && flags.json === jsonFlag);
  if (!isDocument) return;
  await io.stdout.drained();
  if (io.stdout.closed)
    throw new SyscallError("CLOSED", "could not write the output: its reader closed it before the end");
}

async function help(
  output: Io["stdout"],
  asked: string | undefined,
  [name, ...args]: string[],
  io: Io,
): Promise<number> {
  const { commandHelp, rootHelp } = await import("./help/help.ts");
  if (name === undefined) {
    output.write(await rootHelp(io));
    return asked === undefined ? EXIT.usage : EXIT.ok;
  }
  const words: string[] = [];
  const { command } = await find(name, args, words, io);
  output.write(await commandHelp(words, command, io));
  return EXIT.ok;
}

/** The command that the first words name, and what is left of the arguments. */
async function find(
  name: string,
  args: string[],
  words: string[],
  io: Io,
): Promise<{ command: Command; rest: string[] }> {
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  const command = entry ? (await entry.load()).default : await ofDevice(name, args, io);
  words.push(name);
  const [word] = args;
  if (command.lists && (word === "list" || word === "ls")) return { command, rest: args.slice(1) };
  if (command.subcommands === undefined || word === undefined || word.startsWith("-")) {
    return { command, rest: args };
  }
  const sub = Object.hasOwn(command.subcommands, word) ? command.subcommands[word] : undefined;
  // A device's command without its default action.
  if (sub === undefined && (command.args?.length ?? 0) > 0) return { command, rest: args };
  if (sub === undefined) {
    const names = Object.keys(command.subcommands);
    const hint = didYouMean(word, names);
    throw usageError(`unknown word ${JSON.stringify(word)}: expected ${names.join(", ")}${hint}`);
  }
  words.push(word);
  return { command: sub, rest: args.slice(1) };
}

/** The command of a plugin. Fails with INVALID, and says what the user may have meant. */
async function ofDevice(name: string, args: string[], io: Io): Promise<Command> {
  const { findDeviceCommand, stockDeviceCommands } = await import("./devices/device-commands.ts");
  const { command, notices } = await findDeviceCommand(io, name, args);
  if (command !== undefined) return command;
  const { meantCommand } = await import("./help/meant-command.ts");
  const kind = name.startsWith("-") ? "flag" : "command";
  const stock = (await stockDeviceCommands()).map(([word]) => word);
  const hint = [meantCommand(name, args, stock), ...notices].join("\n");
  throw usageError(`unknown ${kind} ${JSON.stringify(name)}${hint}`);
}

/** Whether the arguments are those of `rnix spawn` without its name: `rnix "fix the test" --check "npm test"`. */
async function isIntent(argv: string[]): Promise<boolean> {
  const { isSentence } = await import("./help/meant-command.ts");
  const [first = ""] = argv;
  if (!first.startsWith("-")) return isSentence(first);
  // A misspelled flag is explained by the error for unknown commands.
  const spawn = (await COMMANDS.spawn?.load())?.default;
  const parsed = spawn && (await parse(argv, spawn.flags).catch(() => undefined));
  const [intent = "", ...more] = parsed?.positionals ?? [];
  return more.length === 0 && isSentence(intent);
}

/** Adds to the refusal of unquoted words that they may be an intent, as in `rnix show me the tests`. */
async function withHint(
  argv: string[],
  words: string[],
  { positionals }: Parsed,
  run: () => Promise<number>,
): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (exitCodeOf(error) !== EXIT.usage || !(error instanceof SyscallError) || words.length > 1) throw error;
    const { unquotedIntent } = await import("./help/meant-command.ts");
    const hint = positionals.length === argv.length - 1 ? unquotedIntent(argv) : undefined;
    throw hint === undefined ? error : usageError(`${error.message}\nto run an agent:${hint}`);
  }
}

/** With `--` before the first argument that is no flag. */
function endFlags(args: string[], flags: Command["flags"]): string[] {
  const valued = new Set(
    Object.entries(flags).flatMap(([name, { takesValue, short }]) =>
      takesValue ? [`--${name}`, ...(short === undefined ? [] : [`-${short}`])] : [],
    ),
  );
  let at = 0;
  while (at < args.length && args[at] !== "--" && args[at]?.startsWith("-"))
    at += valued.has(args[at] ?? "") ? 2 : 1;
  return args[at] === "--" ? args : args.toSpliced(at, 0, "--");
}

/** The value of --output in arguments that can't be parsed. */
function outputIn(args: string[]): string | undefined {
  const at = args.findLastIndex((arg) => arg === "--output" || arg.startsWith("--output="));
  return args[at] === "--output" ? args[at + 1] : args[at]?.slice("--output=".length);
}

function asksForHelp(args: string[]): boolean {
  const end = args.indexOf("--");
  return args.slice(0, end < 0 ? args.length : end).some((arg) => arg === "--help" || arg === "-h");
}

async function report(error: unknown, io: Io, words: string[]): Promise<void> {
  const { notesTo } = await import("./output/notes.ts");
  const notes = notesTo(io.stderr);
  const name = ["rnix", ...words].join(" ");
  const message = error instanceof Error ? error.message : String(error);
  notes.error(`${name}: ${message}`);
  // A system error (full disk, missing right) explains itself. Every other unexpected error is a bug.
  const foreseen = error instanceof SyscallError || isSystemError(error);
  if (!foreseen && error instanceof Error) notes.error(`this is a bug in rnix:\n${error.stack ?? ""}`);
  if (exitCodeOf(error) === EXIT.usage) notes.error(`see ${name} --help`);
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && "code" in error;
}
