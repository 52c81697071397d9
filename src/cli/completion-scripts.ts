/** Generates the completion scripts of bash, zsh and fish from the commands' definitions. */

import type { Command } from "./command.ts";
import type { Flag } from "./flags.ts";

/** What may follow certain words of a command line. */
interface CompletionContext {
  /** "", "spawn", "daemon start". */
  words: string;
  flags: [string, Flag<unknown>][];
  /** Subcommands, or the values an argument may have, with what they mean. */
  next: [string, string][];
  /** A file may follow, too. */
  file: boolean;
}

/**
 * The script of bash. A value is a separate word or follows "=", at which bash splits. Other words are completed as
 * files by readline: with `-o filenames`, a word like agen beside a folder agents became `agents/`.
 */
export function bash(commands: [string, Command][]): string {
  const cases = places(commands).map(({ words, flags, next, file }) => {
    const named = next.map(([word]) => word);
    const options = flags.map(([name]) => `--${name}`);
    const first = file ? named : [...named, ...options];
    return `    ${quote(words)}) words=${quote(first.join(" "))} flags=${quote(options.join(" "))} ;;`;
  });
  const values = valuesByFlag(commands).map(
    ([name, choices]) => `    --${name}) words=${quote(choices.join(" "))} flags='' ;;`,
  );
  return `# bash completion for rnix. Written by: rnix completions bash
_rnix() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local place="\${COMP_WORDS[1]:-}" words="" flags=""
  if [ "$current" = "=" ]; then current=""
  elif [ "$previous" = "=" ]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"
  fi
  [ "$COMP_CWORD" -le 1 ] && place=""
  case "$place \${COMP_WORDS[2]:-}" in
${twoWordPlaces(commands)
  .map((words) => `    ${quote(words)}) [ "$COMP_CWORD" -gt 2 ] && place=${quote(words)} ;;`)
  .join("\n")}
  esac
  case "$place" in
${cases.join("\n")}
  esac
  case "$previous" in
${values.join("\n")}
    ${freeFlags(commands).join("|")}) words='' flags='' ;;
  esac
  case "$current" in -*) words="$flags" ;; esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  return 0
}
complete -o bashdefault -o default -F _rnix rnix
`;
}

export function zsh(commands: [string, Command][]): string {
  const cases = places(commands).map(({ words, flags, next }) => {
    const offered = [...next, ...flags.map(([name, flag]): [string, string] => [`--${name}`, flag.about])];
    const lines = offered.map(([word, about]) => `      ${quote(`${word.replaceAll(":", "\\:")}:${about}`)}`);
    return `    ${quote(words)}) offered=(\n${lines.join("\n")}\n    ) ;;`;
  });
  const values = valuesByFlag(commands).map(
    ([name, choices]) => `    --${name}) compadd -- ${choices.join(" ")}; return ;;`,
  );
  return `#compdef rnix
# zsh completion for rnix. Written by: rnix completions zsh
_rnix() {
  local place="" offered
  (( CURRENT > 2 )) && place="$words[2]"
  case "$place $words[3]" in
${twoWordPlaces(commands)
  .map((words) => `    ${quote(words)}) (( CURRENT > 3 )) && place=${quote(words)} ;;`)
  .join("\n")}
  esac
  case "$words[CURRENT-1]" in
${values.join("\n")}
  esac
  offered=()
  case "$place" in
${cases.join("\n")}
  esac
  _describe 'rnix' offered
  _files
}
# Found in fpath this file is the first call of the function; sourced it only registers it.
if [ "$funcstack[1]" = "_rnix" ]; then _rnix "$@"; else compdef _rnix rnix; fi
`;
}

export function fish(commands: [string, Command][]): string {
  const lines = places(commands).flatMap(({ words, flags, next }) => {
    const when = condition(words, next);
    return [
      ...next.map(
        ([word, about]) => `complete -c rnix -n ${quote(when)} -a ${quote(word)} -d ${quote(about)}`,
      ),
      ...flags.map(([name, flag]) => {
        const short = flag.short === undefined ? "" : ` -s ${flag.short}`;
        const value = flag.takesValue
          ? ` -r${flag.choices === undefined ? "" : ` -f -a ${quote(flag.choices.join(" "))}`}`
          : "";
        return `complete -c rnix -n ${quote(when)} -l ${name}${short}${value} -d ${quote(flag.about)}`;
      }),
    ];
  });
  return `# fish completion for rnix. Written by: rnix completions fish\n${lines.join("\n")}\n`;
}

function places(commands: [string, Command][]): CompletionContext[] {
  const root: CompletionContext = {
    words: "",
    flags: [],
    next: commands.map(([name, { about }]) => [name, about]),
    file: false,
  };
  return [root, ...commands.flatMap(([name, command]) => placesOf(name, command))];
}

function placesOf(words: string, command: Command): CompletionContext[] {
  const subcommands = Object.entries(command.subcommands ?? {});
  const values = (command.args ?? []).flatMap(({ choices = [], name }) =>
    choices.map((choice): [string, string] => [choice, name]),
  );
  const own: CompletionContext = {
    words,
    flags: Object.entries(command.flags).filter(([, flag]) => !flag.hidden),
    next: [...subcommands.map(([name, { about }]): [string, string] => [name, about]), ...values],
    file: (command.args ?? []).some(({ file }) => file === true),
  };
  return [own, ...subcommands.flatMap(([name, sub]) => placesOf(`${words} ${name}`, sub))];
}

function twoWordPlaces(commands: [string, Command][]): string[] {
  return places(commands).flatMap(({ words }) => (words.includes(" ") ? [words] : []));
}

/** Flags that take one of a few values; a name means the same wherever it stands. */
function valuesByFlag(commands: [string, Command][]): [string, readonly string[]][] {
  const found = new Map<string, readonly string[]>();
  for (const { flags } of places(commands)) {
    for (const [name, { choices }] of flags) if (choices !== undefined) found.set(name, choices);
  }
  return [...found];
}

/** Flags that take any value, as they are written: `--agent`, `-s`. */
function freeFlags(commands: [string, Command][]): string[] {
  const found = places(commands).flatMap(({ flags }) =>
    flags.flatMap(([name, { takesValue, choices, short }]) =>
      takesValue && choices === undefined ? [`--${name}`, ...(short === undefined ? [] : [`-${short}`])] : [],
    ),
  );
  return [...new Set(found)];
}

function condition(words: string, next: [string, string][]): string {
  if (words === "") return "__fish_use_subcommand";
  const seen = words
    .split(" ")
    .map((word) => `__fish_seen_subcommand_from ${word}`)
    .join("; and ");
  const none =
    words.includes(" ") || next.length === 0
      ? ""
      : `; and not __fish_seen_subcommand_from ${next.map(([word]) => word).join(" ")}`;
  return `${seen}${none}`;
}

/** All three shells understand single quotes; only fish interprets a backslash in them. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
