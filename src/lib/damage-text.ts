/** Describes the damaged and foreign lines of a file. */

interface Lost {
  count: number;
  lines: readonly number[];
  foreign: number;
  missing?: number;
}

/** Reads like "line 2 is damaged and left out; 3 lines are foreign: your Rnix did not write them". */
export function damagedFileText(lost: Lost): string {
  return [damagedText(lost), foreignText(lost), missingText(lost)].filter((text) => text !== "").join("; ");
}

function foreignText({ foreign }: Lost): string {
  if (foreign === 0) return "";
  return foreign === 1
    ? "a line is foreign: your Rnix did not write it"
    : `${foreign} lines are foreign: your Rnix did not write them`;
}

function missingText({ missing = 0 }: Lost): string {
  if (missing === 0) return "";
  return missing === 1 ? "lines are missing in one place" : `lines are missing in ${missing} places`;
}

function damagedText({ count, lines }: Lost): string {
  if (count === 0) return "";
  const more = count > lines.length ? ` and ${count - lines.length} more` : "";
  const which = `${lines.join(", ")}${more}`;
  return count === 1 ? `line ${which} is damaged and left out` : `lines ${which} are damaged and left out`;
}
