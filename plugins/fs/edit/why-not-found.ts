/** Explains an Edit whose text is not in the file. */

import { TimeSlice } from "../content/time-slice.ts";
import { cutText } from "../display.ts";

const MAX_LINES = 50_000;
const MAX_WANTED = 200;
const LINE_CHARS = 300;
/** The least likeness of a line that is shown. */
const MIN_LIKENESS = 0.5;

/** Explains why an exact text is not in a file, and shows the place that was probably meant. */
export async function whyNotFound(bytes: Buffer, wanted: string, signal: AbortSignal): Promise<string> {
  const text = bytes.toString("utf8");
  const lines = text.split("\n", MAX_LINES).map((line) => line.replace(/\r$/, ""));
  if (/^\s*\d+\t/.test(wanted) && !text.includes(wanted)) {
    const bare = wanted.replace(/^\s*\d+\t/gm, "");
    if (text.replaceAll("\r\n", "\n").includes(bare)) {
      return "old_string begins with the line numbers that Read shows. They are not part of the file: leave them out.";
    }
  }
  const wantedLines = wanted.split("\n").map((line) => line.trim());
  const spaced = await findByWords(lines, wantedLines, signal);
  if (spaced !== undefined) {
    const exact = lines.slice(spaced, spaced + wantedLines.length);
    return `old_string was not found, but with other whitespace it is at line ${spaced + 1}. The file has it as:\n${exact.map(cut).join("\n")}`;
  }
  const near = await mostAlike(lines, wantedLines.find((line) => line !== "") ?? "", signal);
  const hint =
    near === undefined
      ? ""
      : ` The line most like its first line is line ${near + 1}:\n${cut(lines[near] ?? "")}`;
  return `old_string was not found. It must be exactly as in the file, whitespace included.${hint}`;
}

/** The index of the line where these lines begin when whitespace is ignored. */
async function findByWords(
  lines: string[],
  wanted: string[],
  signal: AbortSignal,
): Promise<number | undefined> {
  if (wanted.length > MAX_WANTED || wanted.every((line) => line === "")) return undefined;
  const slice = new TimeSlice(signal);
  const compact = wanted.map(words);
  const first = compact.findIndex((line) => line !== "");
  for (let index = 0; index + wanted.length <= lines.length; index++) {
    const line = lines[index + first] ?? "";
    if (slice.spent(2 * line.length + 1)) await slice.rest();
    if (words(line) !== compact[first]) continue;
    if (compact.every((part, offset) => words(lines[index + offset] ?? "") === part)) return index;
  }
  return undefined;
}

function words(line: string): string {
  return line.length > 10_000 ? line : line.trim().replace(/\s+/g, " ");
}

async function mostAlike(lines: string[], wanted: string, signal: AbortSignal): Promise<number | undefined> {
  const slice = new TimeSlice(signal);
  const pairs = pairsOf(wanted);
  let best: number | undefined;
  let bestLikeness = MIN_LIKENESS;
  for (const [index, line] of lines.entries()) {
    const trimmed = line.trim().slice(0, LINE_CHARS);
    if (slice.spent(20 * trimmed.length + 1)) await slice.rest();
    const likeness = alike(pairs, pairsOf(trimmed));
    if (likeness > bestLikeness) {
      best = index;
      bestLikeness = likeness;
    }
  }
  return best;
}

function pairsOf(text: string): Set<string> {
  const pairs = new Set<string>();
  for (let index = 0; index + 1 < text.length && index < LINE_CHARS; index++)
    pairs.add(text.slice(index, index + 2));
  return pairs;
}

/** The share of character pairs that both have: Dice's coefficient, 0 to 1. */
function alike(a: Set<string>, b: Set<string>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let both = 0;
  for (const pair of a) if (b.has(pair)) both++;
  return (2 * both) / (a.size + b.size);
}

function cut(line: string): string {
  return line.length > LINE_CHARS ? `${cutText(line, LINE_CHARS)}…` : line;
}
