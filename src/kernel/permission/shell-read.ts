/** What the shell's `read` sets. */

import { namesIn, type SimpleCommand } from "../../shell/lexer.ts";

/** A `read` that only sets variables that no program reads. */
interface ShellRead {
  names: readonly string[];
  /** A value is a whole line, or words of it. */
  isWhole: boolean;
}

const PLACEHOLDERS = namesIn(
  `FOO BAR BAZ VAR NAME VALUE FILE FILES DIR NUM COUNT TOTAL SUM INDEX LINE DATE NOW TODAY MSG MESSAGE TEXT KEY VERSION TAG
  BRANCH COMMIT HASH SHA RESULT STATUS CODE OUT OUTPUT START END REPLY`,
);
/** Names in lower case that shells and other programs read. */
const LOWER = namesIn(
  "auto_resume histchars http_proxy https_proxy ftp_proxy all_proxy no_proxy path cdpath fpath manpath mailpath",
);

/** Whether no shell and no program reads a variable of this name. */
export function isUnread(name: string): boolean {
  return (PLACEHOLDERS.has(name) || /^(?:[A-Z][0-9]?|[a-z_][a-z0-9_]*)$/.test(name)) && !LOWER.has(name);
}

/** Returns null for another command, and for a `read` whose options or names are not known to be harmless. */
export function readOf({ words, assigned, hasInput }: SimpleCommand): ShellRead | null {
  const [first, ...args] = words;
  if (first?.text !== "read" || args.some(({ splits }) => splits)) return null;
  if (assigned.some(({ form }) => !form.startsWith("IFS="))) return null;
  let isWhole = !hasInput && assigned.every(({ form }) => form === "IFS=");
  while (args[0]?.form.startsWith("-")) {
    const option = args.shift()?.form ?? "";
    if (option === "--") break;
    const [, letter, inWord] = OPTION.exec(option) ?? [];
    if (letter === undefined) {
      if (!/^-[rs]+$/.test(option)) return null;
      continue;
    }
    const value = inWord || args.shift()?.form;
    if (value === undefined || (NUMBERED.test(letter) && !/^[\d.]+$/.test(value))) return null;
    // The names of `find -print0`; any other delimiter parts a name.
    isWhole &&= letter === "p" || (letter === "d" && value === "");
  }
  const names = args.map(({ form }) => form);
  return names.every(isUnread) ? { names: names.length > 0 ? names : ["REPLY"], isWhole } : null;
}

const OPTION = /^-[rs]*([dnNptu])(.*)$/s;
const NUMBERED = /[nNtu]/;
