/** Detects Bun macros in the source of a plugin. */

/**
 * Whether a source may use a Bun macro: an import with the attribute `type: "macro"`, or from "macro:…". Bun runs macros
 * in this process while it reads a file, and does not list them among the files. So a plugin would run when it is only
 * read, and code outside its list of files could change unnoticed. In doubt the answer is yes: for a source with an
 * attribute list and the string "macro" anywhere after it.
 */
export function mayUseMacro(source: string): boolean {
  const afterBlanks = blankSkipper(source);
  for (const { 0: word, index } of source.matchAll(/\b(?:from|import)\b/g)) {
    const start = afterBlanks(index + word.length);
    if (/^["']/.test(source.charAt(start)) && unescaped(quoted(source, start)).startsWith("macro:"))
      return true;
  }
  for (const { 0: word, index } of source.matchAll(/\b(?:with|assert)\b/g)) {
    const start = afterBlanks(index + word.length);
    // After the first list the whole rest is searched, so that no comment or string can hide a macro.
    if (source.charAt(start) === "{") return /["'`]macro["'`]/.test(unescaped(source.slice(start)));
  }
  return false;
}

/** Finds the first position from the given one that is neither blank nor comment. */
function blankSkipper(source: string): (at: number) => number {
  const blockEnd = endFinder(source, "*/");
  const lineEnd = endFinder(source, "\n");
  return (at) => {
    for (let place = at; ; ) {
      while (place < source.length && /\s/.test(source.charAt(place))) place++;
      if (source.startsWith("/*", place)) place = blockEnd(place + 2);
      else if (/^(?:\/\/|<!--|-->)/.test(source.slice(place, place + 4))) place = lineEnd(place);
      else return place;
    }
  };
}

/** Remembers its last answer, so that unclosed comments are not searched repeatedly. */
function endFinder(source: string, mark: string): (from: number) => number {
  let searched = 0;
  let found = -1;
  return (from) => {
    if (found < 0 || from < searched || from > found) {
      const next = source.indexOf(mark, from);
      searched = from;
      found = next < 0 ? source.length : next;
    }
    return Math.min(found + mark.length, source.length);
  };
}

/** The text between the quote at `start` and the next one of its kind. */
function quoted(source: string, start: number): string {
  const end = source.indexOf(source.charAt(start), start + 1);
  return source.slice(start + 1, end < 0 ? source.length : end);
}

const ESCAPES =
  /\\(?:u\{([\da-f]+)\}|u([\da-f]{4})|x([\da-f]{2})|([0-7]{1,3})|(\r\n|[\n\r\u2028\u2029])|([\s\S]))/gi;

/** Decodes all escapes: to Bun, `"\x6dacro"` is "macro". */
function unescaped(source: string): string {
  if (!source.includes("\\")) return source;
  return source.replace(ESCAPES, (all, point, unit, byte, octal, lineEnd, other) => {
    if (lineEnd !== undefined) return "";
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    const hex = point ?? unit ?? byte;
    if (hex === undefined) return /[bfnrtv]/.test(other) ? " " : other;
    const code = Number.parseInt(hex, 16);
    return code > 0x10ffff ? all : String.fromCodePoint(code);
  });
}
