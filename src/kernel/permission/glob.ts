/** Wildcards in texts and paths. */

/** `*` matches any characters, `?` one. */
export function matchText(pattern: string, text: string): boolean {
  return matchWild(pattern, text, "*", (wanted, char) => wanted === char || wanted === "?");
}

/**
 * In paths, `*` and `?` match within one segment. A segment `**` matches any number of segments, including none. So
 * `src/**` is the folder and everything below it.
 */
export function matchPath(pattern: readonly string[], path: readonly string[]): boolean {
  return matchWild(pattern, path, "**", matchText);
}

/** Returns true when some path below this folder could match the pattern. */
export function matchesBelow(pattern: readonly string[], folder: readonly string[]): boolean {
  for (const [i, part] of folder.entries()) {
    const wanted = pattern[i];
    if (wanted === "**") return true;
    if (wanted === undefined || !matchText(wanted, part)) return false;
  }
  return pattern.length > folder.length;
}

/** Returns true when every text that matches `inner` matches `outer` too: only a star matches its stars. */
export function fitsWithin(outer: string, inner: string): boolean {
  return matchWild(outer, inner, "*", (wanted, char) => wanted === char || (wanted === "?" && char !== "*"));
}

/**
 * Returns true when the parts match the pattern's, one by one; a `star` matches any number of parts. Backtracks only to
 * the last star, because the text may be hostile.
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

export interface PathSegments {
  /** Segments from the root. */
  absolute: readonly string[];
  /** Segments from the project's folder; null outside of it. */
  relative: readonly string[] | null;
}

export function isWild(part: string): boolean {
  return /[*?]/.test(part);
}

export function startsWith(path: readonly string[], head: readonly string[]): boolean {
  return path.length >= head.length && head.every((part, i) => part === path[i]);
}

/** The segments of a pattern before its first wildcard. */
export function literalHead(pattern: readonly string[]): readonly string[] {
  const wild = pattern.findIndex(isWild);
  return wild < 0 ? pattern : pattern.slice(0, wild);
}

/** Returns true for a folder above the pattern's path: searching the folder would reach it. */
export function isAbove(folder: readonly string[], pattern: readonly string[]): boolean {
  const head = literalHead(pattern);
  return folder.length < head.length && startsWith(head, folder);
}

/** The segments of a path or pattern; "" has none. */
export function segments(path: string): string[] {
  return path.split("/").filter((part) => part !== "");
}
