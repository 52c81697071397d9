import type { Command } from "./command.ts";
import type { Flag } from "./flags.ts";

/** One place in a command line: after these words, these flags and words may follow. */
interface Place {
  /** "", "spawn", "daemon start". */
  words: string;
  flags: [string, Flag<unknown>][];
  /** Subcommands, or the values an argument may have, with what they mean. */
  next: [string, string][];
}

export function bash(commands: [string, Command][]): string {
  const cases = places(commands).map(({ words, flags, next }) => {
    const offered = [...next.map(([word]) => word), ...flags.map(([name]) => `--${name}`)].join(" ");
    return `    ${quote(words)}) words=${quote(offered)} ;;`;
  });
  const values = valuesByFlag(commands).map(
    ([name, choices]) => `    --${name}) words=${quote(choices.join(" "))} ;;`,
  );
  return `# bash completion for rnix. Written by: rnix completions bash
_rnix() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local place="\${COMP_WORDS[1]:-}" words=""
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
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ "\${#COMPREPLY[@]}" -eq 0 ] && COMPREPLY=($(compgen -f -- "$current"))
  return 0
}
complete -o filenames -F _rnix rnix
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

function places(commands: [string, Command][]): Place[] {
  const root: Place = { words: "", flags: [], next: commands.map(([name, { about }]) => [name, about]) };
  return [root, ...commands.flatMap(([name, command]) => placesOf(name, command))];
}

function placesOf(words: string, command: Command): Place[] {
  const subcommands = Object.entries(command.subcommands ?? {});
  const values = (command.args ?? []).flatMap(({ choices = [], name }) =>
    choices.map((choice): [string, string] => [choice, name]),
  );
  const own: Place = {
    words,
    flags: Object.entries(command.flags).filter(([, flag]) => !flag.hidden),
    next: [...subcommands.map(([name, { about }]): [string, string] => [name, about]), ...values],
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

/** Single quotes are understood by all three shells; fish alone takes a backslash in them for itself. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
