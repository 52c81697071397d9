/** Searches what a person has typed before, as Ctrl-R offers it. */

import { oneLine } from "../output/format.ts";
import type { Suggestions } from "./completion.ts";

/** Columns of a message that are kept of its first lines; the menu cuts them to its width. */
const LABEL_WIDTH = 500;

/** The entries with all words of `query`, in upper or lower case, the newest first. `entries`: the oldest first. */
export function searchHistory(entries: readonly string[], query: string): Suggestions {
  const words = query.toLowerCase().split(/\s+/);
  const found = new Set(
    entries.toReversed().filter((entry) => words.every((word) => entry.toLowerCase().includes(word))),
  );
  const items = [...found].map((text) => ({ text, label: oneLine(text, LABEL_WIDTH), about: "" }));
  return { kind: "history", from: 0, items };
}
