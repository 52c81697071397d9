/** Shortens texts to a number of tokens or characters. */

import { estimateTokens } from "../budget/tokens.ts";

/** The share of a clipped text that its beginning gets; its end gets the rest. */
const HEAD = 0.7;

/** Clips a text to about `tokens` tokens of its beginning and end. `where` says where the whole text is. */
export function clipText(text: string, tokens: number, where = ""): string {
  const whole = estimateTokens(text);
  if (whole <= tokens) return text;
  const chars = Math.max(0, Math.floor((text.length * tokens) / whole));
  const head = Math.ceil(chars * HEAD);
  const left = text.length - chars;
  const mark = `[… ${left} of ${text.length} characters left out here.${where === "" ? "" : ` ${where}`} …]`;
  return [wellFormed(text.slice(0, head)), mark, wellFormed(text.slice(text.length - (chars - head)))].join(
    "\n",
  );
}

/** The beginning of a text, on one line. */
export function shortenText(text: string, chars: number): string {
  const line = text
    .slice(0, 4 * chars)
    .replace(/\s+/g, " ")
    .trim();
  return line.length <= chars ? line : `${wellFormed(line.slice(0, chars - 1))}…`;
}

/** Removes half a surrogate pair at a cut, which some providers reject. */
function wellFormed(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}
