/** Splits text into the terms that the index stores, and a search into words with their expressions for FTS5. */

/** More words of a query are ignored. */
const MAX_WORDS = 32;
/** Shorter words match only as they are, and have no typos. */
const MIN_PREFIX_CHARS = 3;
const MIN_TYPO_CHARS = 5;

export interface QueryWord {
  terms: readonly string[];
  pairs: boolean;
  /** The last word is also the beginning of a longer one. */
  isLast: boolean;
}

/** Returns the words of a text that a user or a model searches for. Nothing in it is syntax. */
export function queryWords(text: string): QueryWord[] {
  const words = wordsOf(text).slice(0, MAX_WORDS);
  const distinct = new Map(words.map((word) => [word.terms.join(" "), word]));
  return [...distinct.values()].map(({ terms, pairs }, at, all) => ({
    terms,
    pairs,
    isLast: at === all.length - 1,
  }));
}

/** The FTS5 expression of one word. `similar`: terms that differ by a typo. */
export function expressionOf({ terms, pairs, isLast }: QueryWord, similar: readonly string[] = []): string {
  const [whole = "", ...parts] = terms;
  if (pairs) return terms.length === 1 ? `"${whole}"*` : `"${terms.slice(0, -1).join(" ")}"`;
  const choices = [`"${whole}"`];
  if (isLast && whole.length >= MIN_PREFIX_CHARS) choices.push(`"${whole}"*`);
  if (parts.length > 0) choices.push(`"${parts.join(" ")}"`);
  choices.push(...similar.map((term) => `"${term}"`));
  return choices.length === 1 ? `"${whole}"` : `(${choices.join(" OR ")})`;
}

export function allowsTypo({ terms, pairs }: QueryWord): boolean {
  return !pairs && terms.length === 1 && isWord(terms[0] ?? "", MIN_TYPO_CHARS);
}

/** Whether a term may stand for a word with a typo: it is made of letters, and neither short nor very long. */
export function isWord(term: string, min = MIN_TYPO_CHARS - 1): boolean {
  return term.length >= min && term.length <= MAX_TYPO_CHARS && LETTERS_ONLY.test(term);
}

const MAX_TYPO_CHARS = 24;
const LETTERS_ONLY = /^[\p{L}\p{M}]+$/u;

/** One letter more, less or other, or two neighbours exchanged. */
export function isTypoOf(term: string, word: string): boolean {
  const shorter = Math.min(term.length, word.length);
  let start = 0;
  while (start < shorter && term[start] === word[start]) start++;
  let end = 0;
  while (end < shorter - start && term.at(-1 - end) === word.at(-1 - end)) end++;
  const left = term.slice(start, term.length - end);
  const right = word.slice(start, word.length - end);
  if (left.length + right.length === 0) return false;
  if (left.length <= 1 && right.length <= 1) return true;
  return left.length === 2 && right.length === 2 && left[0] === right[1] && left[1] === right[0];
}

/** How many characters at one of its ends are right, wherever the typo is. */
export function knownChars(word: string): number {
  return Math.floor((word.length - 1) / 2);
}

interface Word {
  /** Position in the text, in UTF-16 units. */
  start: number;
  end: number;
  /** The first is the whole word; the others are the parts of an identifier, or the rest of its character pairs. */
  terms: string[];
  /** The word's script has no spaces between words, so its terms are pairs of characters. */
  pairs: boolean;
}

/** Longer words, such as keys and encoded data, are not searched. */
const MAX_WORD_CHARS = 256;
/** Terms are cut to this length, in the text and in queries alike. */
const MAX_TERM_CHARS = 40;

/** Scripts that put no spaces between words, and Hangul, whose words have endings. */
const UNSPACED =
  "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}ー々";

const ASCII = /^\p{ASCII}*$/u;
const ASCII_WORD = /[A-Za-z0-9_]+/g;
const ANY_WORD = new RegExp(`[${UNSPACED}]+|(?:(?![${UNSPACED}])[\\p{L}\\p{N}\\p{M}_])+`, "gu");
const UNSPACED_WORD = new RegExp(`^[${UNSPACED}]`, "u");
/** An identifier has several parts: `read_file`, `readFile`, `HTTPServer`. */
const HAS_PARTS = /_|\p{Ll}\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u;
const PART = /\p{Lu}+(?![\p{Ll}\p{M}])|\p{Lu}?[^\p{Lu}_]+|\p{Lu}/gu;
/** Accents, Arabic and Hebrew vowel signs: people write words with and without them. Marks of other scripts are letters. */
const ACCENTS = /[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]/g;
const NO_TERM = /[^\p{L}\p{N}\p{M}]/gu;
/** Letters that have no accent to remove, but are often typed as others. */
const LETTERS: Readonly<Record<string, string>> = {
  ß: "ss",
  æ: "ae",
  œ: "oe",
  ø: "o",
  ł: "l",
  đ: "d",
  ð: "d",
  þ: "th",
  ı: "i",
};
const LETTER = new RegExp(`[${Object.keys(LETTERS).join("")}]`, "g");

/** Calls `take` with each word of a text, in order. */
export function eachWord(text: string, take: (word: Word) => void): void {
  const pattern = ASCII.test(text) ? ASCII_WORD : ANY_WORD;
  for (const match of text.matchAll(pattern)) {
    const [word] = match;
    if (word.length > MAX_WORD_CHARS) continue;
    const pairs = UNSPACED_WORD.test(word);
    const terms = pairs ? pairsOf(word) : termsOf(word);
    if (terms.length > 0) take({ start: match.index, end: match.index + word.length, terms, pairs });
  }
}

function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  eachWord(text, (word) => words.push(word));
  return words;
}

/** The whole identifier as one term, then its parts. */
function termsOf(word: string): string[] {
  if (!HAS_PARTS.test(word)) return folded(word);
  const parts = (word.match(PART) ?? []).flatMap(folded);
  return parts.length > 1 ? [parts.join("").slice(0, MAX_TERM_CHARS), ...parts] : parts;
}

/** Overlapping pairs of characters, and the last character alone: a search for one character finds each of them. */
function pairsOf(word: string): string[] {
  const chars = [...fold(word)];
  return chars.map((char, at) => char + (chars[at + 1] ?? ""));
}

function folded(word: string): string[] {
  const term = fold(word).slice(0, MAX_TERM_CHARS);
  return term === "" ? [] : [term];
}

function fold(word: string): string {
  if (ASCII.test(word)) return word.toLowerCase();
  return word
    .normalize("NFKD")
    .toLowerCase()
    .replace(ACCENTS, "")
    .normalize("NFC")
    .replace(LETTER, (letter) => LETTERS[letter] ?? letter)
    .replace(NO_TERM, "");
}
