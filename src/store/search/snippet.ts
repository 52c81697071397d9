/** The part of a text that shows why it was found. */

import { allowsTypo, isTypoOf, type QueryWord } from "./query.ts";
import { eachWord } from "./terms.ts";

const SNIPPET_CHARS = 240;
/** Characters before the first match. */
const LEAD_CHARS = 60;

/** A word of the text that matches a word of the query. */
interface Match {
  at: number;
  end: number;
  /** Its position in the query. */
  word: number;
}

/** Returns the part with the most different words of the query, on one line. */
export function snippetOf(text: string, words: readonly QueryWord[]): string {
  const found: Match[] = [];
  eachWord(text, ({ terms, start, end }) => {
    const word = words.findIndex((one) => matches(one, terms));
    if (word >= 0) found.push({ at: start, end, word });
  });
  const start = Math.max(0, bestStart(found) - LEAD_CHARS);
  const from = start === 0 ? 0 : afterBlank(text, start);
  const part = text.slice(from, from + SNIPPET_CHARS);
  const to = from + part.length < text.length ? beforeBlank(part) : part.length;
  const line = part.slice(0, to).replace(/\s+/g, " ").trim().toWellFormed();
  return `${from > 0 ? "…" : ""}${line}${from + to < text.trimEnd().length ? "…" : ""}`;
}

function matches(word: QueryWord, found: readonly string[]): boolean {
  const { terms, pairs, isLast } = word;
  const [whole = ""] = terms;
  if (pairs) return terms.some((term) => found.includes(term));
  return found.some(
    (term) =>
      term === whole || (isLast && term.startsWith(whole)) || (allowsTypo(word) && isTypoOf(term, whole)),
  );
}

/** The match from which the most different words follow within a snippet. */
function bestStart(found: readonly Match[]): number {
  let best = { at: 0, words: 0 };
  let end = 0;
  const count = new Map<number, number>();
  for (const [first, { at, word }] of found.entries()) {
    for (let next = found[end]; next && isNear(next, at, end === first); next = found[++end])
      count.set(next.word, (count.get(next.word) ?? 0) + 1);
    if (count.size > best.words) best = { at, words: count.size };
    const left = (count.get(word) ?? 0) - 1;
    if (left > 0) count.set(word, left);
    else count.delete(word);
  }
  return best.at;
}

function isNear({ end }: Match, at: number, isFirst: boolean): boolean {
  return isFirst || end - at <= SNIPPET_CHARS - LEAD_CHARS;
}

function afterBlank(text: string, at: number): number {
  const blank = text.slice(at, at + LEAD_CHARS / 2).search(/\s/);
  return blank < 0 ? at : at + blank + 1;
}

function beforeBlank(text: string): number {
  const blank = text.slice(0, -1).search(/\s\S*$/);
  return blank > SNIPPET_CHARS / 2 ? blank : text.length;
}
