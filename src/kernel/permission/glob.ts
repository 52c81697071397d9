/** `*` stands for any characters, `?` for one. No backtracking to speak of: patterns meet hostile text. */
export function matchText(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  /** Where to go on when what follows the last star does not fit: the star takes one character more. */
  let star = -1;
  let taken = 0;
  while (t < text.length) {
    if (pattern[p] === "*") {
      star = p++;
      taken = t;
    } else if (p < pattern.length && (pattern[p] === text[t] || pattern[p] === "?")) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

/**
 * Path patterns: `*` and `?` stay within one segment, a segment `**` stands for any number of segments, none
 * included. So `src/**` is the folder and everything below it.
 */
export function matchPath(pattern: readonly string[], path: readonly string[]): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let taken = 0;
  while (t < path.length) {
    const segment = path[t] ?? "";
    const wanted = pattern[p];
    if (wanted === "**") {
      star = p++;
      taken = t;
    } else if (wanted !== undefined && matchText(wanted, segment)) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (pattern[p] === "**") p++;
  return p === pattern.length;
}

/** The segments of a path or pattern; "" has none. */
export function segments(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}
