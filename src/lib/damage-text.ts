/** Describes the damaged and foreign lines of a file. */

interface Lost {
  count: number;
  lines: readonly number[];
  foreign: number;
  missing?: number;
}

/** Reads like "line 2 is damaged and left out; 3 lines are foreign: your Rnix did not write them". */
export function damagedFileText({ count, lines, foreign, missing = 0 }: Lost): string {
  const which = `${lines.join(", ")}${count > lines.length ? ` and ${count - lines.length} more` : ""}`;
  const damaged = count === 1 ? `line ${which} is damaged` : `lines ${which} are damaged`;
  const others = foreign === 1 ? "a line is foreign" : `${foreign} lines are foreign`;
  const holes = missing === 1 ? "in one place" : `in ${missing} places`;
  return [
    ...(count > 0 ? [`${damaged} and left out`] : []),
    ...(foreign > 0 ? [`${others}: your Rnix did not write ${foreign === 1 ? "it" : "them"}`] : []),
    ...(missing > 0 ? [`lines are missing ${holes}`] : []),
  ].join("; ");
}
