/** The name that was most likely meant; undefined when none is near. */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const wanted = wrong.toLowerCase();
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(wrong.length / 3)) + 1;
  for (const name of names) {
    const distance = editDistance(wanted, name.toLowerCase());
    if (distance < bestDistance) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Letters to insert, delete, replace or swap with their neighbour. */
function editDistance(a: string, b: string): number {
  const at = (rows: number[][], i: number, j: number): number => rows[i]?.[j] ?? Math.max(i, j);
  const rows: number[][] = [];
  for (let i = 0; i <= a.length; i++) {
    const row: number[] = [];
    rows.push(row);
    for (let j = 0; j <= b.length; j++) {
      if (i === 0 || j === 0) {
        row.push(i + j);
        continue;
      }
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(
        at(rows, i - 1, j) + 1,
        at(rows, i, j - 1) + 1,
        at(rows, i - 1, j - 1) + (same ? 0 : 1),
      );
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (swapped) cost = Math.min(cost, at(rows, i - 2, j - 2) + 1);
      row.push(cost);
    }
  }
  return at(rows, a.length, b.length);
}
