/** Forms of a text in which words are found that were written to escape a search. */

import { withoutHidden } from "./hidden.ts";

/**
 * The text in small letters, without marks of Markdown, hidden characters and letters that only look like Latin ones;
 * and the same with codes resolved that can carry a text.
 */
export function plainForms(text: string): string[] {
  const folded = folding(text);
  const plain = spaced(folded);
  const forms = [plain];
  if (SINGLE_LETTERS.test(folded)) {
    forms.push(spaced(folded.replace(LETTER_RUNS, (run) => run.replace(/[ .\-_*]/g, ""))));
  }
  if (/[a-z][0134579@$]|[0134579@$][a-z]/.test(plain)) {
    forms.push(plain.replace(/[0134579@$]/g, (sign) => LEET[sign] ?? sign));
  }
  for (const decoded of decodedParts(text)) forms.push(spaced(folding(decoded)));
  return forms;
}

function spaced(text: string): string {
  return text.replace(/\s+/g, " ");
}

function folding(text: string): string {
  return withoutHidden(text)
    .normalize("NFKC")
    .replace(/[\p{L}\p{M}]+/gu, latin)
    .toLowerCase()
    .replace(/&(?:#39|apos|rsquo);|[\u2018\u2019\u02bc\u00b4]/g, "'")
    .replace(/[*_~"`\u201c\u201d]+/g, "");
}

/** Letters of Greek and Cyrillic count as the Latin ones that they look like, in words that have Latin letters too. */
function latin(word: string): string {
  if (!/[a-z]/i.test(word)) return word;
  return word.replace(/[\u0370-\u04ff]/g, (letter) => LOOKALIKES[letter.toLowerCase()] ?? letter);
}

const LOOKALIKES = lettersBy(
  "авсԁеһіїјкмнорѕтухԛԝгпѵαβγεηικνορτυχω",
  "abcdehiijkmhopstyxqwrnvabyenikvoptuxw",
);
const LEET = lettersBy("0134579@$", "oieastgas");

function lettersBy(signs: string, letters: string): Readonly<Record<string, string>> {
  return Object.fromEntries([...signs].map((sign, at) => [sign, letters[at] ?? sign]));
}

/** Eight letters or more that stand alone: "i g n o r e  a l l". */
const SINGLE_LETTERS = /(?:\b[a-z][ .-]{1,3}){8,}/;
const LETTER_RUNS = /(?:\b[a-z][ .-]){2,}[a-z]\b/g;

const MAX_PARTS = 8;

/** Texts in base64, in hexadecimal digits, and with escapes of HTML, URLs and JSON. */
function decodedParts(text: string): string[] {
  const parts: string[] = [];
  for (const [code] of text.matchAll(/[A-Za-z0-9+/_-]{24,4096}={0,2}/g))
    parts.push(printable(Buffer.from(code, "base64")));
  for (const [code] of text.matchAll(/\b(?:[0-9a-f]{2}[ :]?){16,2048}\b/gi)) {
    parts.push(printable(Buffer.from(code.replace(/[ :]/g, ""), "hex")));
  }
  if (/%[0-9a-f]{2}|\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|&#/i.test(text)) parts.push(unescaped(text));
  return parts.filter((part) => part !== "").slice(0, MAX_PARTS);
}

/** "" for bytes that are no text of words. */
function printable(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString("utf8");
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\n\r\t]*$/u.test(text) && /\p{L}{3,}[ ,.]+\p{L}{2,}/u.test(text)
    ? text
    : "";
}

function unescaped(text: string): string {
  return text
    .replace(/%([0-9a-f]{2})|\\x([0-9a-f]{2})/gi, (_, url: string, hex: string) => charOf(url ?? hex, 16))
    .replace(/\\u\{?([0-9a-f]{4,6})\}?/gi, (_, hex: string) => charOf(hex, 16))
    .replace(/&#x([0-9a-f]{1,6});/gi, (_, hex: string) => charOf(hex, 16))
    .replace(/&#(\d{1,7});/g, (_, number: string) => charOf(number, 10));
}

function charOf(digits: string, base: number): string {
  const code = Number.parseInt(digits, base);
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}
