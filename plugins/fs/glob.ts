import { lstat, stat } from "node:fs/promises";
import { isAbsolute, join, resolve } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import type { Confinement } from "./confinement.ts";
import { errnoOf, systemError } from "./errors.ts";
import type { Input } from "./inputs.ts";
import { leftOut, type WalkNotes, walk } from "./walk.ts";

const DEFAULT_LIMIT = 100;
/** Of more names than this the newest can't be told. */
const MAX_MATCHES = 20_000;
const ANSWER_CHARS = 60_000;
const WILD = /[*?[\]{}!\\]/;

/** Names of files that fit the pattern, the newest first. */
export async function glob(
  confinement: Confinement,
  context: OpenContext,
  input: Input<"glob">,
  signal: AbortSignal,
): Promise<string> {
  const start = resolve(context.cwd, input.path ?? ".");
  const { base, rest } = split(input.pattern, start);
  // What a run may list is said by `path`: the pattern does not lead past it.
  if (input.path !== undefined && base !== start && !base.startsWith(join(start, "/"))) {
    throw new SyscallError(
      "INVALID",
      `The pattern ${input.pattern} leads out of ${input.path}: put the folder into path.`,
    );
  }
  const folder = await folderAt(confinement, base);
  const notes: WalkNotes = { unreadable: 0, cut: false };
  const matcher = new Bun.Glob(rest);
  const matches: { path: string; modified: number }[] = [];
  let count = 0;
  for await (const found of walk(folder, notes, signal)) {
    if (!matcher.match(found.relative)) continue;
    count++;
    if (matches.length === MAX_MATCHES) continue;
    const modified = await modifiedAt(found.path);
    if (modified !== undefined) matches.push({ path: found.path, modified });
  }
  matches.sort((a, b) => b.modified - a.modified || (a.path < b.path ? -1 : 1));
  return answer(confinement, input, { matches, count, folder, notes });
}

/** A glob as a test on paths relative to the search's start: without a slash it is about names alone. */
export function pathFilter(pattern: string): (relative: string) => boolean {
  const matcher = new Bun.Glob(pattern.replace(/^(?:\.\/)+/, ""));
  if (pattern.includes("/")) return (relative) => matcher.match(relative);
  return (relative) => matcher.match(relative.slice(relative.lastIndexOf("/") + 1));
}

/** The folder that the fixed part of a pattern leads to, and what remains of the pattern. */
function split(pattern: string, path: string): { base: string; rest: string } {
  const parts = pattern.split("/").filter((part, index) => part !== "." && (part !== "" || index === 0));
  const wild = parts.findIndex((part) => WILD.test(part));
  const fixed = wild < 0 ? parts.length - 1 : wild;
  const rest = parts.slice(fixed);
  if (rest.length === 0 || rest.includes("..") || rest.join("/") === "") {
    throw new SyscallError(
      "INVALID",
      `The pattern ${JSON.stringify(pattern)} names no files. Expected something like **/*.ts; ".." only stands at its start.`,
    );
  }
  const start = parts.slice(0, fixed).join("/");
  const base = isAbsolute(pattern) ? resolve("/", start) : join(path, start);
  return { base, rest: rest.join("/") };
}

async function folderAt(confinement: Confinement, base: string): Promise<string> {
  const real = await confinement.existing(base);
  const info = await stat(real).catch((thrown) => {
    throw systemError(thrown, `list ${base}`);
  });
  if (info.isDirectory()) return real;
  throw new SyscallError("INVALID", `${confinement.shown(base)} is a file, not a folder. Read shows it.`);
}

/** undefined when the file has gone meanwhile. */
async function modifiedAt(path: string): Promise<number | undefined> {
  try {
    return (await lstat(path)).mtimeMs;
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return undefined;
    throw systemError(thrown, `look at ${path}`);
  }
}

function answer(
  confinement: Confinement,
  input: Input<"glob">,
  found: { matches: { path: string }[]; count: number; folder: string; notes: WalkNotes },
): string {
  const { matches, count, folder, notes } = found;
  const lines: string[] = [];
  let chars = 0;
  for (const { path } of matches.slice(0, input.limit ?? DEFAULT_LIMIT)) {
    const name = confinement.shown(path);
    chars += name.length + 1;
    if (chars > ANSWER_CHARS) break;
    lines.push(name);
  }
  const more = count - lines.length;
  if (count === 0) lines.push(`No file in ${confinement.shown(folder)} matches ${input.pattern}.`);
  else if (more > 0) lines.push(`[… and ${more} more. Narrow the pattern or raise limit.]`);
  if (count > MAX_MATCHES) lines.push(`[Only ${MAX_MATCHES} of them were compared by age.]`);
  return [...lines, ...leftOut(notes)].join("\n");
}
