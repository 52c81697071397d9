/**
 * The text on one line with every character shown that a terminal would act on, reorder or hide: as `\n` or `\u{202e}`.
 * For what a person decides on, such as a command: nothing of it is left out.
 */
export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    (char) => SHORT[char] ?? `\\u{${(char.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}}`,
  );
}

/** A program and its arguments, or other words, as a person reads them: quoted where a shell would see more. */
export function visibleWords(words: readonly string[]): string {
  return visible(
    words
      .map((word) => (/^[\w./:@%=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
      .join(" "),
  );
}

/** Control and format characters, separators of lines, halves of pairs, and spaces that are not the usual one. */
const UNSEEN = /(?! )[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Cs}]/gu;
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\t": "\\t", "\r": "\\r" };
