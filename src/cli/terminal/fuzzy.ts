/** Finds the names that a few typed letters mean: all letters in their order, the best match first. */

/** Names that are compared before the event loop gets a turn, so that typing never waits. */
const SLICE = 5000;

/** What a match is worth; larger is better. null: the letters are not all there. `query` is in lower case. */
export function fuzzyScore(query: string, name: string): number | null {
  if (query === "") return 0;
  const lower = name.toLowerCase();
  const base = lower.lastIndexOf("/", lower.length - 2) + 1;
  // A match within the last part of a path is what is usually meant.
  const inBase = query.includes("/") ? null : scoreFrom(query, lower, base);
  if (inBase !== null) return inBase + 50 - (lower.length - base) / 10 - lower.length / 100;
  const whole = scoreFrom(query, lower, 0);
  return whole === null ? null : whole - lower.length / 50;
}

/** The names that match, best first, at most `limit`. Returns null when `signal` ended the search. */
export async function fuzzyFind(
  query: string,
  names: readonly string[],
  limit: number,
  signal: AbortSignal,
): Promise<string[] | null> {
  const wanted = query.toLowerCase();
  const found: { name: string; score: number; at: number }[] = [];
  for (let at = 0; at < names.length; at++) {
    if (at > 0 && at % SLICE === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      if (signal.aborted) return null;
    }
    const name = names[at] ?? "";
    const score = fuzzyScore(wanted, name);
    if (score !== null) found.push({ name, score, at });
  }
  if (signal.aborted) return null;
  found.sort((a, b) => b.score - a.score || a.at - b.at);
  return found.slice(0, limit).map(({ name }) => name);
}

/** One pass from left to right; a run of letters and a letter that begins a word count more. */
function scoreFrom(query: string, name: string, start: number): number | null {
  const exact = name.indexOf(query, start);
  if (exact >= 0) return query.length * 10 + (beginsWord(name, exact) ? 20 : 0) + (exact === start ? 15 : 0);
  let score = 0;
  let last = -2;
  let from = start;
  for (const letter of query) {
    const at = name.indexOf(letter, from);
    if (at < 0) return null;
    score += at === last + 1 ? 5 : beginsWord(name, at) ? 4 : 1;
    last = at;
    from = at + 1;
  }
  return score;
}

function beginsWord(name: string, at: number): boolean {
  return at === 0 || "/-_. ".includes(name[at - 1] ?? "");
}
