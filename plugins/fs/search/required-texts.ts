import type { Node } from "./pattern-syntax.ts";

/** Beyond these, looking for each of them is no quicker than matching. */
const MAX_TEXTS = 8;

/** Stands in the text for bytes that are not UTF-8, which are others. */
const REPLACED = "\uFFFD";

/**
 * Texts of which every match of the pattern holds at least one: a file with none of them need not be matched at
 * all. Empty where that can't be told.
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
