/** Patterns of shell commands, such as `git *`. */

import { MARK, namesIn, type Word } from "../../shell/lexer.ts";
import { fitsWithin, matchText, matchWild } from "./glob.ts";
import {
  evaluatingBuiltin,
  hasSubstitution,
  mayEvaluateCode,
  parseCommandLine,
  readsFile,
  type SimpleCommand,
  writesFile,
} from "./shell-words.ts";

/** Programs that run their remaining words as a command. */
const WRAPPERS = namesIn(
  `builtin busybox chroot chrt command doas env exec fakeroot find flock gdb ionice jobs linux32 linux64 ltrace nice nohup
  nsenter numactl prlimit setarch setpriv setsid stdbuf strace sudo systemd-run taskset time timeout unbuffer unshare
  xargs`,
);
/** Programs that take a command line as text, which is not parsed. */
const SHELLS = namesIn(
  `alias ash bash bind compgen complete dash eval fc fish ksh mapfile parallel readarray runuser script sh source su trap watch
  zsh .`,
);
/** An option of `env` whose text is a command line. */
const SPLITS = /^(-[a-zA-Z0-9]*S|--split)/;
/** Git's options before the subcommand that take the next word as their value. */
const GIT_VALUES = namesIn("-C -c --attr-source --config-env --git-dir --namespace --work-tree");

/**
 * The words of a simple command: `*` in a word matches any characters, a word `*` any number of words. `git:*`, as
 * other tools write it, equals `git *`.
 */
export class CommandPattern {
  /** Alternatives: one must match. */
  readonly #forms: readonly (readonly string[])[];
  /** The same alternatives with the program's name in lower case, for deny rules. */
  readonly #denyForms: readonly (readonly string[])[];

  constructor(text: string) {
    const legacy = /^(.*[^\s*]):\*$/s.exec(text)?.[1];
    const forms = legacy === undefined ? [text] : [`${legacy} *`, `${legacy}:* *`];
    this.#forms = forms.map((form) => form.split(/\s+/).filter((word) => word !== ""));
    this.#denyForms = this.#forms
      .map(([name = "", ...rest]) => [name.toLowerCase(), ...rest])
      // `git push*` is meant to deny `git push -f`, too.
      .map((form) => (/[^*]\*$/.test(form.at(-1) ?? "") ? [...form, "*"] : form));
  }

  /** Returns true when an allow pattern covers one command of a line. Unknown parts count against the command. */
  covers(command: SimpleCommand): boolean {
    return uncoverable(command) === null && this.coversWords(command);
  }

  /** The same, whatever the command assigns, and wherever it is, its input comes from and its output goes. */
  coversWords(command: SimpleCommand): boolean {
    if (uncoverableWords(command) !== null) return false;
    return this.#forms.some((form) => {
      // A file read with `<` is an additional word that the pattern does not name.
      if (readsFile(command) && form.at(-1) !== "*") return false;
      return matchWords(form, command.words, (wanted, word) => !word.dynamic && covered(wanted, word.text));
    });
  }

  /** Without a star, it covers one command only. */
  get isExact(): boolean {
    return this.#forms.every((form) => form.every((word) => !word.includes("*")));
  }

  /** Returns true when this pattern covers every command that the other covers. */
  contains(other: CommandPattern): boolean {
    return other.#forms.every((inner) =>
      this.#forms.some((outer) =>
        matchWild(outer, inner, "*", (wanted, word) => word !== "*" && within(wanted, word)),
      ),
    );
  }

  /** Returns true when a deny pattern may match one command of a line. Unknown parts count as a match. */
  mayBe(command: SimpleCommand): boolean {
    return readings(command.words).some((words) => this.#denyForms.some((form) => mayMatch(form, words)));
  }
}

/** The commands of a line, read once for all patterns. */
export type CommandLine = readonly SimpleCommand[] | null;

export function readCommandLine(subject: string | undefined): CommandLine {
  return subject === undefined ? null : parseCommandLine(subject);
}

/** Returns true when each command is covered by one of the patterns. A line that can't be parsed is not covered. */
export function coversLine(patterns: readonly CommandPattern[], line: CommandLine): boolean {
  if (line === null || line.length === 0) return false;
  return line.every((command) => patterns.some((pattern) => pattern.covers(command)));
}

/** Returns true when one command matches, or when the line can't be parsed. */
export function deniesLine(pattern: CommandPattern, line: CommandLine): boolean {
  return line === null || mayEvaluateCode(line) || line.some((command) => pattern.mayBe(command));
}

/** Returns why no pattern can cover this line, as one sentence; null when one could. */
export function whyUncoverable(line: CommandLine): string | null {
  if (line === null)
    return "No pattern covers this line: only lists and pipes of simple commands are covered.";
  for (const command of line) {
    const reason = uncoverable(command);
    if (reason !== null) return `No pattern covers a command that ${reason}.`;
  }
  return null;
}

function uncoverable(command: SimpleCommand): string | null {
  if (command.assigns) return "sets a variable";
  if (command.compound) return "is part of a loop or condition, or has a here-document";
  if (hasSubstitution(command)) return "has a substitution";
  if (writesFile(command)) return "writes to a file by `>`";
  return uncoverableWords(command);
}

function uncoverableWords(command: SimpleCommand): string | null {
  if (command.words[0]?.dynamic) return "the shell names by an expansion";
  const builtin = evaluatingBuiltin(command);
  return builtin === null ? null : `the shell's \`${builtin}\` may evaluate: give it plain arguments`;
}

/** A star inside a word does not match "..": `cat src/*` does not cover `cat src/../key`. */
function covered(wanted: string, text: string): boolean {
  if (!wanted.includes("*")) return wanted === text;
  return matchText(wanted, text) && !/(?:^|\/)\.\.(?:\/|$)/.test(text);
}

/** Without a star, `?` is an ordinary character. */
function within(wanted: string, word: string): boolean {
  return wanted.includes("*") ? fitsWithin(wanted, word) : wanted === word;
}

/** A word `*` of the pattern matches any number of words. */
function matchWords(
  pattern: readonly string[],
  words: readonly Word[],
  fits: (wanted: string, word: Word) => boolean,
): boolean {
  return matchWild(pattern, words, "*", fits);
}

/** After a word that the shell expands, any words may follow, or none. */
function mayMatch(pattern: readonly string[], words: readonly Word[]): boolean {
  const unknown = words.findIndex((word) => word.dynamic);
  const fits = (wanted: string, word: Word): boolean => matchText(wanted, word.text);
  if (unknown < 0) return matchWords(pattern, words, fits);
  const known = words.slice(0, unknown);
  // A prefix of the pattern must match the known words; the unknown ones may match the rest.
  for (let end = 0; end <= pattern.length; end++) {
    if (matchWords(pattern.slice(0, end), known, fits)) return true;
  }
  return false;
}

/** Returns the commands that it may run: itself, and after a wrapper any of its later words. */
function readings(words: readonly Word[]): (readonly Word[])[] {
  const name = programName(words[0]);
  if (name === undefined) return [words];
  if (takesText(words)) return [...named(words), UNKNOWN];
  if (name === "git") return [...named(words), ...named(withoutGitOptions(words))];
  if (!WRAPPERS.has(name)) return named(words);
  const behind = words.slice(1).flatMap((word, i) => {
    const inner = words.slice(i + 1);
    // In `find .` the dot is a folder, not the builtin.
    if (programName(word) !== "." && takesText(inner)) return [UNKNOWN];
    return programName(inner[0]) === "git" ? readings(inner) : named(inner);
  });
  return [...named(words), ...behind];
}

function takesText([first, ...rest]: readonly Word[]): boolean {
  const name = programName(first) ?? "";
  if (SHELLS.has(name)) return true;
  if (name === "env") return rest.some(({ text }) => SPLITS.test(text));
  // Both give a name another meaning: `hash -p /usr/bin/git g`, `enable -f library g`.
  return (name === "hash" || name === "enable") && rest.some(({ text }) => /^-.*[pf]/.test(text));
}

/** Reads `git -C . push` as `git push`. An alias set on the command line may be any command. */
function withoutGitOptions([git, ...rest]: readonly Word[]): readonly Word[] {
  if (!git) return rest;
  let at = 0;
  for (let word = rest[at]; word && !word.dynamic && word.text.startsWith("-"); word = rest[at]) {
    const takesValue = GIT_VALUES.has(word.text);
    const value = takesValue ? rest[at + 1] : { ...word, text: word.text.replace(/^--config-env=/, "") };
    if (value && /^alias\./i.test(value.text)) return UNKNOWN;
    if (value?.dynamic && (value.splits || /^--?c/.test(word.text))) return [git, ...UNKNOWN];
    at += takesValue ? 2 : 1;
  }
  return [git, ...rest.slice(at)];
}

/** Returns the words as written, and with the program's name without its folder. */
function named(words: readonly Word[]): (readonly Word[])[] {
  const [first, ...rest] = words;
  if (first === undefined || first.dynamic) return [words];
  const whole = { ...first, text: first.text.toLowerCase() };
  const name = { ...first, text: programName(first) ?? "" };
  const written = whole.text === name.text ? [] : [[whole, ...rest]];
  return [...written, [name, ...rest]];
}

const UNKNOWN: readonly Word[] = [{ text: "", dynamic: true, splits: true, form: MARK.unknown }];

/** Returns the name without its folder, in lower case: on some file systems `RM` and `rm` are one program. */
function programName(word: Word | undefined): string | undefined {
  if (word === undefined || word.dynamic) return undefined;
  return word.text.slice(word.text.lastIndexOf("/") + 1).toLowerCase();
}
