/** Defines commands: their description, arguments, flags and function. */

import { usageError } from "./exit.ts";
import type { NamedFiles } from "./files/named-files.ts";
import { type Flags, type FlagValues, type Parsed, readFlags } from "./flags.ts";
import type { Io } from "./io.ts";

interface Argument {
  /** As the help shows it: PID, INTENT. */
  name: string;
  about: string;
  optional?: boolean;
  /** Takes all remaining arguments. */
  many?: boolean;
  /** Text of several words, which needs quotes. */
  sentence?: boolean;
  /** What the completion offers. */
  choices?: readonly string[];
  /** A file or a folder: the completion offers those. */
  file?: boolean;
}

interface Description {
  /** One line, for the list of commands. */
  about: string;
  args?: readonly Argument[];
  /** Whole command lines, and what each does. */
  examples: Readonly<Record<string, string>>;
  /** Paragraphs after the flags. */
  notes?: readonly string[];
  hidden?: boolean;
  /** It lists things: `list` after its name, as other programs want it, says the same. */
  lists?: boolean;
  /** After the first argument come those of a script: no flags are among them. */
  passes?: true;
  /** Explains an unknown flag better than the nearest name does. */
  explainFlag?(flag: string): string | undefined;
  subcommands?: Readonly<Record<string, Command>>;
}

/** Reports arguments that were refused, in the form that `--output` asks for. */
type Refused = (io: Io, error: unknown, output: string | undefined) => Promise<void>;

interface CommandSpec<F extends Flags> extends Description {
  flags?: F;
  /** Runs the command and returns the exit code. Absent: a subcommand must be named. */
  run?(io: Io, flags: FlagValues<F>, args: string[]): Promise<number>;
  /** The files that it opens beside those of its flags, which say so themselves (`file`). */
  files?(io: Io, args: string[], flags: FlagValues<F>): NamedFiles | Promise<NamedFiles>;
  refused?: Refused;
}

/** A command without the types of its flags. */
export interface Command extends Description {
  flags: Flags;
  run?(io: Io, parsed: Parsed): Promise<number>;
  refused?: Refused;
}

export function defineCommand<const F extends Flags>(spec: CommandSpec<F>): Command {
  const { run, files, ...description } = spec;
  const known: Flags = spec.flags ?? {};
  if (run === undefined) return { ...description, flags: known };
  return {
    ...description,
    flags: known,
    async run(io, parsed) {
      let flags: FlagValues<F>;
      let args: string[];
      try {
        flags = readFlags(spec.flags, parsed);
        args = checkArguments(parsed.positionals, spec.args ?? []);
        const mayOpen = files !== undefined || io.stdin.kind === "file" || namesFile(known, parsed);
        if (mayOpen) {
          const { requireFiles } = await import("./files/named-files.ts");
          await requireFiles(io, known, parsed, async () => (await files?.(io, args, flags)) ?? {});
        }
      } catch (error) {
        await spec.refused?.(io, error, parsed.values.get("output")?.at(-1));
        throw error;
      }
      return run(io, flags, args);
    },
  };
}

function namesFile(flags: Flags, { values }: Parsed): boolean {
  return Object.entries(flags).some(([name, { file }]) => file !== undefined && values.has(name));
}

function checkArguments(given: string[], expected: readonly Argument[]): string[] {
  const missing = expected.find((argument, i) => !argument.optional && given.length <= i);
  if (missing !== undefined) throw usageError(`${missing.name} is missing: ${missing.about}`);
  if (!expected.some((argument) => argument.many) && given.length > expected.length) {
    const last = expected.at(-1);
    if (last?.sentence) throw usageError(needsQuotes(last.name, given.slice(expected.length - 1)));
    const extra = given[expected.length] ?? "";
    const names = expected.map((argument) => argument.name).join(" ");
    throw usageError(
      `unexpected argument ${JSON.stringify(extra)}; ${names === "" ? "no argument is taken here" : `expected only ${names}`}`,
    );
  }
  return given;
}

/** Longer text is truncated: only its form matters. */
const SHOWN_TEXT = 80;

function needsQuotes(name: string, words: string[]): string {
  const text = words.join(" ");
  const shown = text.length > SHOWN_TEXT ? `${text.slice(0, SHOWN_TEXT)}…` : text;
  const quoted = /["$`\\!]/.test(shown) ? `'${shown.replaceAll("'", "'\\''")}'` : `"${shown}"`;
  return `${name} is one argument, got ${words.length}: put it in quotes: ${quoted}`;
}
