/** Suggests a file for a path that does not exist. */

const MAX_LENGTH = 40;

/** The name that was probably meant, if one is similar enough. */
export function didYouMean(name: string, names: readonly string[]): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const wanted = name.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1;
  for (const candidate of names) {
    const other = candidate.toLowerCase();
    const isFar = Math.abs(other.length - wanted.length) >= bestDistance;
    const distance = isFar ? Number.POSITIVE_INFINITY : editDistance(wanted, other);
    const likeness = stem(other) === stem(wanted) ? Math.min(1, distance) : distance;
    if (likeness >= bestDistance) continue;
    best = candidate;
    bestDistance = likeness;
  }
  return best;
}

function stem(name: string): string {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? name.slice(0, dot) : name;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
