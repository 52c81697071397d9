/** Makes control characters of a text visible. */

/**
 * The text on one line, with every character that a terminal would execute, reorder or hide written as `\n` or
 * `\u{202e}`. For text that the user decides by, such as a command: nothing is left out.
 */
export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    (char) => SHORT[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}}`,
  );
}

/** A program and its arguments as visible text, quoted as a shell needs it. */
export function visibleWords(words: readonly string[]): string {
  return visible(
    words
      .map((word) => (/^[\w./:@%=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
      .join(" "),
  );
}

/** Control and format characters, line separators, unpaired surrogates, spaces other than U+0020, and what has no glyph. */
const UNSEEN = /(?! )[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Cs}\p{DI}\u{2800}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };
