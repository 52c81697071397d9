/** Finds out whether a shell text runs a command: a check that runs none would pass. */

/** A part of a word. Only one alternative fits at each place: a long word is read once. */
const PART = /'[^']*'|"(?:[^"\\]|\\[\s\S])*"|\\[\s\S]|\$\{[^}]{0,500}\}|(?!\$\{[^}]{0,500}\})[^\s;&|()<>'"\\]/
  .source;

/** Comments, escaped line ends, operators, redirections and words. `$(` ends a word: a substitution begins. */
const TOKEN = new RegExp(
  [
    String.raw`(?<blank>[^\S\n]+|\\\n|(?<![^\s;&|()])#[^\n]*)|(?<separator>[;&|\n]+)|(?<bracket>[()])`,
    String.raw`|(?<redirect>\d*(?:<<-?|>>|[<>]&|<>|>\||[<>]))|(?<word>(?:${PART})*?\$\(|(?:${PART})+|['"\\])`,
  ].join(""),
  "g",
);

const ASSIGNMENT = /^([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=([\s\S]*)$/;
/** Words that only expand variables: with `:+`, to a text if the variable is not empty. */
const VARIABLES = /^"?(?:\$(?:\w+|[@*]|\{(?:\w+|[@*])(?::?-|:?\+[^}]*)?\}))+"?$/;
/** Runs in the shell itself whatever its quotes. */
const SUBSTITUTION = /`|\$\(/;
const names = (text: string): ReadonlySet<string> => new Set(text.split(" "));
/** Its end begins one that is in no quotes. */
const OPEN = /^[^"'`]*\$\($/;
/** A command may follow. */
const KEYWORDS = names("! { } if then elif else fi while until do done time");
/** They run what follows them, if anything does. */
const RUNNERS = names("eval exec command builtin env sh bash dash zsh ksh");
/** They only prepare the shell for the commands after them. */
const PREPARING = names(
  "alias unalias export readonly declare typeset local unset set shopt umask trap ulimit cd pushd popd return wait shift hash jobs times",
);

/** Commands that succeed and do nothing: alone a user means them, beside an empty variable they hide it. */
const IDLE = names("true :");

/** Undefined: not set. */
type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Whether a shell text runs any command. `true` and `:` are commands, but not after an empty variable. Blanks,
 * comments, assignments, redirections, definitions, commands that only prepare the shell, and those in the background are
 * none. Nor is a variable that is empty in `variables`; without these, each variable counts as a command.
 */
export function hasCommand(text: string, variables?: Variables): boolean {
  const tokens = tokensOf(text);
  const assigned = new Map<string, string>();
  const isEmpty = (word: string): boolean =>
    word === '""' ||
    word === "''" ||
    (variables !== undefined &&
      VARIABLES.test(word) &&
      [...word.matchAll(/\w+/g)].every(
        ([name]) => (assigned.get(name) ?? variables[name] ?? "").trim() === "",
      ));
  /** Whether the next word names a command; it is one of its arguments otherwise. */
  let first = true;
  /** An empty variable stood for a command: 1 in this part of the text, 2 in an earlier one. */
  let empty: 0 | 1 | 2 = 0;
  /** The command before in the pipe is empty: this one reads nothing. */
  let readsNothing = false;
  const background = inBackground(tokens);
  for (let at = 0; at < tokens.length; at++) {
    const { kind, text: word } = tokens[at] ?? END;
    if (background.has(at)) continue;
    if (word === "wait" && first && tokens[at + 1]?.kind === "word") return true;
    if (kind === "word" && SUBSTITUTION.test(word.replaceAll(/'[^']*'/g, ""))) {
      if (!OPEN.test(word)) return true;
      // What is in it is a command, if it has any.
      const name = ASSIGNMENT.exec(word)?.[1];
      if (name !== undefined) assigned.set(name, word);
      first = true;
    } else if (kind === "redirect") at++;
    else if (kind !== "word") {
      first = true;
      readsNothing = /^\|&?$/.test(word) && (empty === 1 || readsNothing);
      if (empty > 0) empty = 2;
    } else if (!first || KEYWORDS.has(word)) continue;
    else if (word === "function" || isBracket(tokens, at + 1, "(")) at = bodyEnd(tokens, at + 1);
    else if (word === "for" && tokens[at + 2]?.text === "in") {
      const list = wordsFrom(tokens, at + 3);
      assigned.set(tokens[at + 1]?.text ?? "", list.join(" "));
      at += 2 + list.length;
      if (list.every(isEmpty)) at = closing(tokens, at + 1, "do", "done");
    } else if (PREPARING.has(word) || (word === "exit" && at > 0)) first = false;
    else if (RUNNERS.has(word)) {
      while (/^-\w/.test(tokens[at + 1]?.text ?? "")) at++;
      const [, script] = /^'([^']*)'$/.exec(tokens[at + 1]?.text ?? "") ?? [];
      const isScript = script !== undefined && /^-\w*c$/.test(tokens[at]?.text ?? "");
      if (isScript && !hasCommand(script, variables)) at++;
    } else if (empty === 2 && IDLE.has(word)) first = false;
    else {
      const [, name, value] = ASSIGNMENT.exec(word) ?? [];
      if (name !== undefined && value !== undefined) assigned.set(name, isEmpty(value) ? "" : value);
      else if (readsNothing) first = false;
      else if (!isEmpty(word)) return true;
      else empty = 1;
    }
  }
  return false;
}

interface Token {
  kind: "separator" | "bracket" | "redirect" | "word";
  text: string;
}

const END: Token = { kind: "separator", text: "" };

function tokensOf(text: string): Token[] {
  return [...text.replaceAll(/`([^`]*)`/g, "$($1)").matchAll(TOKEN)].flatMap(({ groups = {} }): Token[] => {
    for (const kind of ["separator", "bracket", "redirect", "word"] as const) {
      const found = groups[kind];
      if (found !== undefined) return [{ kind, text: found }];
    }
    return [];
  });
}

/** Returns the places of tokens that run in the background: the result of such a command is not known without `wait PID`. */
function inBackground(tokens: readonly Token[]): ReadonlySet<number> {
  const found = new Set<number>();
  const starts = [0];
  for (const [at, { kind, text }] of tokens.entries()) {
    if (/^(?:[({]|\$\(|if|case|do)$/.test(text)) starts.push(at + 1);
    else if (/^(?:[)}]|fi|esac|done)$/.test(text)) starts.length = Math.max(1, starts.length - 1);
    else if (kind === "separator" && !/^(?:&&|\|)/.test(text)) {
      const start = starts.pop() ?? 0;
      if (text.startsWith("&")) for (let i = start; i < at; i++) found.add(i);
      starts.push(at + 1);
    }
  }
  return found;
}

function isBracket(tokens: readonly Token[], at: number, bracket: string): boolean {
  return tokens[at]?.kind === "bracket" && tokens[at]?.text === bracket;
}

function wordsFrom(tokens: readonly Token[], start: number): string[] {
  const end = tokens.findIndex(({ kind }, at) => at >= start && kind !== "word");
  return tokens.slice(start, end < 0 ? undefined : end).map(({ text }) => text);
}

/** The end of a function's body, whose brackets begin after `from`. */
function bodyEnd(tokens: readonly Token[], from: number): number {
  const names = isBracket(tokens, from, "(") ? from + 2 : from + 1;
  return isBracket(tokens, names, "(") && !isBracket(tokens, names + 1, ")")
    ? closing(tokens, names, "(", ")")
    : closing(tokens, names, "{", "}");
}

/** The index of the token that closes the first `open` at or after `from`; the last one if none does. */
function closing(tokens: readonly Token[], from: number, open: string, close: string): number {
  let depth = 0;
  for (let at = from; at < tokens.length; at++) {
    if (tokens[at]?.text === open) depth++;
    else if (tokens[at]?.text === close && --depth <= 0) return at;
  }
  return tokens.length;
}
