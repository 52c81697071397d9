/** `*` stands for any characters, `?` for one. */
export function matchText(pattern: string, text: string): boolean {
  return matchWild(pattern, text, "*", (wanted, char) => wanted === char || wanted === "?");
}

/**
 * Path patterns: `*` and `?` stay within one segment, a segment `**` stands for any number of segments, none
 * included. So `src/**` is the folder and everything below it.
 */
export function matchPath(pattern: readonly string[], path: readonly string[]): boolean {
  return matchWild(pattern, path, "**", matchText);
}

/** Whether some path below this folder could fit the pattern. */
export function matchesBelow(pattern: readonly string[], folder: readonly string[]): boolean {
  for (const [i, part] of folder.entries()) {
    const wanted = pattern[i];
    if (wanted === "**") return true;
    if (wanted === undefined || !matchText(wanted, part)) return false;
  }
  return pattern.length > folder.length;
}

/** Whether every text that fits the pattern `inner` fits `outer` too: its stars are letters only a star takes. */
export function fitsWithin(outer: string, inner: string): boolean {
  return matchWild(outer, inner, "*", (wanted, char) => wanted === char || (wanted === "?" && char !== "*"));
}

/**
 * Whether the parts fit the pattern's, one by one, where a `star` of the pattern stands for any number of them.
 * No backtracking to speak of: patterns meet hostile text.
 */
export function matchWild<Part>(
  pattern: ArrayLike<string>,
  parts: ArrayLike<Part>,
  star: string,
  fits: (wanted: string, part: Part) => boolean,
): boolean {
  let p = 0;
  let t = 0;
  /** Where to continue if the parts after the last star don't match: the star then takes one more part. */
  let lastStar = -1;
  let taken = 0;
  while (t < parts.length) {
    const wanted = pattern[p];
    const part = parts[t];
    if (wanted === star) {
      lastStar = p++;
      taken = t;
    } else if (wanted !== undefined && part !== undefined && fits(wanted, part)) {
      p++;
      t++;
    } else if (lastStar >= 0) {
      p = lastStar + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (pattern[p] === star) p++;
  return p === pattern.length;
}

/** The segments of a path or pattern; "" has none. */
export function segments(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}
