/** Finds the texts that every match of a pattern contains. */

import type { Node } from "./pattern-syntax.ts";

/** With more texts, looking for each is no faster than matching. */
const MAX_TEXTS = 8;

/** Replaces invalid UTF-8 in the text, so it does not occur in the bytes. */
const REPLACED = "\uFFFD";

/**
 * Texts of which every match contains at least one: a file without any of them has no match. Empty when the pattern
 * requires none.
 */
export function requiredTexts(node: Node): string[] {
  switch (node.kind) {
    case "char":
      return node.text === undefined || node.text === REPLACED ? [] : [node.text];
    case "choice":
      return ofChoice(node.options);
    case "sequence":
      return ofSequence(node.parts);
    case "repeat":
      return node.min > 0 ? requiredTexts(node.body) : [];
    case "empty":
    case "assert":
      return [];
  }
}

function ofChoice(options: readonly Node[]): string[] {
  const texts = new Set<string>();
  for (const option of options) {
    const required = requiredTexts(option);
    if (required.length === 0) return [];
    for (const text of required) texts.add(text);
  }
  return texts.size > MAX_TEXTS ? [] : [...texts];
}

/** Neighbouring characters make one text; the longest part is the rarest. */
function ofSequence(parts: readonly Node[]): string[] {
  let best: string[] = [];
  let run = "";
  const offer = (texts: string[]): void => {
    if (shortest(texts) > shortest(best)) best = texts;
  };
  for (const part of parts) {
    if (part.kind === "assert") continue;
    if (part.kind === "char" && part.text !== undefined && part.text !== REPLACED) {
      run += part.text;
      continue;
    }
    if (run !== "") offer([run]);
    run = "";
    offer(requiredTexts(part));
  }
  if (run !== "") offer([run]);
  return best;
}

function shortest(texts: readonly string[]): number {
  return texts.length === 0 ? 0 : Math.min(...texts.map((text) => text.length));
}
