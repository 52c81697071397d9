/** Reads like "line 2 is damaged and left out". */
export function lostText({ count, lines }: { count: number; lines: readonly number[] }): string {
  const more = count > lines.length ? ` and ${count - lines.length} more` : "";
  const which = `${lines.join(", ")}${more}`;
  return count === 1 ? `line ${which} is damaged and left out` : `lines ${which} are damaged and left out`;
}
