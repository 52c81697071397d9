/** A search in words, and its expressions for FTS5. */

import { wordsOf } from "./terms.ts";

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
