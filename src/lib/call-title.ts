/** Titles of tool calls for people: the tool and its most telling argument. */

/** Input fields that say what a call does, best first. The names are those of the stock tools and of common servers. */
const SUBJECTS = "command path file_path url uri query intent prompt skill name title message".split(" ");

const MAX_TITLE = 200;
/** Names of different tools in the title of several calls. */
const MAX_NAMES = 4;

interface TitledCall {
  name: string;
  input: Readonly<Record<string, unknown>>;
}

/**
 * The call on one line, such as `Bash npm test`, `Grep total in src` or `Agent Count the files`. Paths below `cwd` are
 * relative to it.
 */
export function callTitle({ name, input }: TitledCall, cwd: string): string {
  const subject = subjectOf(input, cwd);
  return cutTitle(subject === "" ? name : `${name} ${subject}`);
}

/** One call by its title; several calls by their number and tools, such as `3 calls: Read ×2, Bash`. */
export function callsTitle(calls: readonly TitledCall[], cwd: string): string {
  const [only] = calls;
  if (only === undefined) return "";
  if (calls.length === 1) return callTitle(only, cwd);
  const counts = new Map<string, number>();
  for (const { name } of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  const names = [...counts].map(([name, count]) => (count === 1 ? name : `${name} ×${count}`));
  const more = names.length > MAX_NAMES ? ", …" : "";
  return cutTitle(`${calls.length} calls: ${names.slice(0, MAX_NAMES).join(", ")}${more}`);
}

/** Characters of what a step did. */
const MAX_DID = 1000;

/** All calls of a step on one line, such as `Read a.txt; Bash npm test (failed)`. */
export function didTitle(calls: readonly (TitledCall & { state: string })[], cwd: string): string {
  let text = "";
  for (const [i, call] of calls.entries()) {
    const title = `${callTitle(call, cwd)}${call.state === "done" ? "" : ` (${call.state})`}`;
    const more = `; and ${calls.length - i} more`;
    if (text.length + title.length + more.length > MAX_DID) return text + more;
    text += `${i === 0 ? "" : "; "}${title}`;
  }
  return text;
}

function subjectOf(input: TitledCall["input"], cwd: string): string {
  const { pattern, path } = input;
  if (isText(pattern))
    return isText(path) ? `${short(pattern, cwd)} in ${short(path, cwd)}` : short(pattern, cwd);
  const known = SUBJECTS.map((field) => input[field]).find(isText);
  return short(known ?? Object.values(input).find(isText) ?? "", cwd);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "";
}

/** The first line of a text, and whether more follows. */
export function firstLine(text: string): string {
  return cutTitle(short(text, ""));
}

/** The first line, without `cwd` before a path. */
function short(text: string, cwd: string): string {
  const begin = text.trimStart().slice(0, 2 * MAX_TITLE);
  const [first = "", ...more] = begin.split("\n");
  const line = first.replace(/\s+/g, " ").trim();
  const inside = cwd !== "" && line.startsWith(`${cwd}/`) ? line.slice(cwd.length + 1) : line;
  return more.some((other) => other.trim() !== "") ? `${inside} …` : inside;
}

export function cutTitle(text: string, most = MAX_TITLE): string {
  if (text.length <= most) return text;
  const kept = text.slice(0, most - 1).toWellFormed();
  return `${kept.trimEnd()}…`;
}
