/** Formats a tool call in the form that a person would write it: `Bash npm test`, `Read src/a.ts:10-40`. */

import { oneLine, printable } from "./format.ts";

interface CallText {
  name: string;
  /** The arguments that matter. A command keeps its lines. */
  argument: string;
}

/** Columns of one of several values. */
const VALUE = 60;
/** Characters of a value that are looked at: an argument can be a megabyte. */
const MAX_CHARS = 20_000;

type Input = Record<string, unknown>;

/** Paths below `cwd` are relative to it. */
export function callText(name: string, input: Input, cwd = ""): CallText {
  const { path } = input;
  const isBelow = cwd !== "" && typeof path === "string" && `${path}/`.startsWith(`${cwd}/`);
  const shown = isBelow ? { ...input, path: path.slice(cwd.length + 1) || "." } : input;
  return { name: printable(name), argument: (KNOWN.get(name)?.(shown) ?? pairs(shown)).trim() };
}

/** The call on one line of at most `width` columns. */
export function callLine(name: string, input: Input, width: number, cwd = ""): string {
  const { name: shown, argument } = callText(name, input, cwd);
  return oneLine(`${shown} ${argument}`, width);
}

/** The arguments of the stock tools. null: they are not as the tool expects, so all of them are shown. */
const KNOWN: ReadonlyMap<string, (input: Input) => string | null> = new Map([
  ["Bash", ({ command }: Input) => text(command)],
  ["Read", readText],
  ["Write", ({ path }: Input) => text(path)],
  ["Edit", editText],
  ["Glob", ({ pattern, path }: Input) => within(text(pattern), path)],
  ["Grep", grepText],
  ["Agent", agentText],
  ["Plan", ({ steps }: Input) => (Array.isArray(steps) ? `${steps.length} steps` : null)],
  ["Skill", ({ skill }: Input) => text(skill)],
  ["ToolSearch", ({ query }: Input) => text(query)],
  ["AskUser", askText],
  ["TaskCreate", ({ subject }: Input) => text(subject)],
  ["TaskUpdate", taskText],
  ["Complete", ({ result }: Input) => (typeof result === "string" ? "" : null)],
  ["SendMessage", ({ to, message }: Input) => text(message) && `to ${value(to, VALUE)}: ${text(message)}`],
]);

function readText({ path, offset, limit }: Input): string | null {
  const file = text(path);
  if (file === null || (offset === undefined && limit === undefined)) return file;
  const first = typeof offset === "number" ? offset : 1;
  return `${file}:${first}-${typeof limit === "number" ? first + limit - 1 : ""}`;
}

function editText({ path, old_string, new_string, replace_all }: Input): string | null {
  const file = text(path);
  if (file === null || typeof old_string !== "string" || typeof new_string !== "string") return null;
  return replace_all === true ? `${file} (all occurrences)` : file;
}

function grepText({ pattern, path, glob, case_insensitive }: Input): string | null {
  const searched = text(pattern);
  if (searched === null) return null;
  const where = within(`"${searched}"`, path) ?? "";
  const files = typeof glob === "string" ? ` (${printable(glob)})` : "";
  return `${case_insensitive === true ? "-i " : ""}${where}${files}`;
}

function agentText({ intent, agent }: Input): string | null {
  const task = text(intent);
  if (task === null) return null;
  return typeof agent === "string" ? `${printable(agent)}: ${task}` : task;
}

function taskText({ id, ...change }: Input): string | null {
  return typeof id === "number" ? `${id} ${pairs(change)}` : null;
}

function askText({ questions }: Input): string | null {
  if (!Array.isArray(questions)) return null;
  const asked: unknown = questions[0]?.question;
  const more = questions.length > 1 ? ` (and ${questions.length - 1} more)` : "";
  return typeof asked === "string" ? oneLine(asked, 2 * VALUE) + more : null;
}

function within(what: string | null, path: unknown): string | null {
  if (what === null) return null;
  return typeof path === "string" && path !== "." ? `${what} in ${printable(path)}` : what;
}

function text(given: unknown): string | null {
  return typeof given === "string" && given.trim() !== "" ? printable(given.slice(0, MAX_CHARS)) : null;
}

/** `key=value` of a tool that Rnix does not know; the value alone if there is one. */
function pairs(input: Input): string {
  const fields = Object.entries(input).filter(([, given]) => given !== undefined);
  const [only] = fields;
  if (fields.length === 1 && only !== undefined && typeof only[1] === "string") {
    return `${printable(only[0])}=${value(only[1], 4 * VALUE)}`;
  }
  return fields.map(([key, given]) => `${printable(key)}=${value(given, VALUE)}`).join(" ");
}

/** A value as on a command line: quoted only where that is needed. */
function value(given: unknown, width: number): string {
  const raw =
    typeof given === "string"
      ? given.slice(0, MAX_CHARS)
      : (JSON.stringify(given)?.slice(0, MAX_CHARS) ?? "");
  const shown = oneLine(raw, width);
  return typeof given === "string" && /^$|[\s"'=]/.test(shown) ? `"${shown}"` : shown;
}
