/** Finds the most similar name. */

/** The most similar name, or undefined if none is similar enough for a suggestion. */
export function nearestName(wrong: string, names: Iterable<string>): string | undefined {
  const lower = wrong.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wrong.length / 3)) + 1;
  for (const name of names) {
    const candidate = name.toLowerCase();
    const distance = candidate === lower ? 0 : editDistance(lower, candidate, bestDistance);
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best ?? prefixed(lower, names);
}

function prefixed(lower: string, names: Iterable<string>): string | undefined {
  if (lower.length < 3) return undefined;
  for (const name of names) if (name.toLowerCase().startsWith(lower)) return name;
  return undefined;
}

/** The number of insertions, deletions, replacements and swaps of neighbours, at most `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1];
      const replaced = at(last, column - 1) + (same ? 0 : 1);
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, replaced);
      const swapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return Math.min(at(last, b.length), limit);
}

function at(row: number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
