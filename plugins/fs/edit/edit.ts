/** The operation of the tool Edit. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { binaryKind, readChunks, TimeSlice } from "../content/read-chunks.ts";
import { replaceFile } from "../content/replace-file.ts";
import { cutText, sizeText } from "../display.ts";
import { systemError } from "../errors.ts";
import type { Confinement } from "../paths/confinement.ts";
import type { WriteTarget } from "../paths/write-target.ts";
import type { EditInput } from "../tools.ts";
import { type Change, hunks, lineAt } from "./diff.ts";

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_CHANGES = 10_000;
/** Units of a TimeSlice for each occurrence. */
const CHANGE_COST = 256;

/**
 * Replaces an exact text. It works on bytes, so that the rest of the file does not change: byte order mark, line endings
 * and invalid UTF-8.
 */
export async function edit(
  confinement: Confinement,
  context: OpenContext,
  input: EditInput,
  signal: AbortSignal,
): Promise<string> {
  const shown = confinement.shown(input.path);
  if (input.old_string === "") return create(confinement, context, input, signal);
  if (input.old_string === input.new_string) {
    const message = `${shown}: old_string and new_string are equal; there is nothing to change.`;
    throw new SyscallError("INVALID", message);
  }
  // Checks that the path may be written, then that the file exists.
  const target = await confinement.target(input.path);
  const { bytes, stat } = await contentOf(confinement, input.path, signal);
  const changes = await find(bytes, input, shown, signal);
  const written = await replaceFile(confinement, { ...target, stat }, apply(bytes, changes), signal);
  context.changed(written);
  const times = changes.length === 1 ? "" : ` ${changes.length} occurrences`;
  return `Edited ${confinement.shown(written)}${times}:\n${hunks(bytes, changes)}`;
}

async function create(
  confinement: Confinement,
  context: OpenContext,
  input: EditInput,
  signal: AbortSignal,
): Promise<string> {
  const target = await confinement.target(input.path);
  const shown = confinement.shown(target.path);
  if (target.stat && target.stat.size > 0) {
    const message = `${shown} exists: an empty old_string only creates a new file. Give the text to replace, or use Write to replace the whole file.`;
    throw new SyscallError("INVALID", message);
  }
  const content = Buffer.from(input.new_string);
  const written = await replaceFile(confinement, target, content, signal);
  context.changed(written);
  return `Created ${shown} (${sizeText(content.length)}).`;
}

async function contentOf(
  confinement: Confinement,
  path: string,
  signal: AbortSignal,
): Promise<{ bytes: Buffer; stat: WriteTarget["stat"] }> {
  const { handle, stat } = await confinement.open(path);
  const shown = confinement.shown(path);
  try {
    const pieces: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of readChunks(handle, signal)) {
      length += chunk.length;
      if (length > MAX_BYTES) {
        const message = `${shown} has ${sizeText(stat.size)}; Edit takes files up to ${sizeText(MAX_BYTES)}. Change it with a command, like sed.`;
        throw new SyscallError("INVALID", message);
      }
      pieces.push(chunk.slice());
    }
    const bytes = Buffer.concat(pieces);
    const binary = binaryKind(bytes);
    if (binary !== undefined)
      throw new SyscallError("INVALID", `${shown} is a binary file (${binary}); Edit changes text only.`);
    return { bytes, stat };
  } catch (thrown) {
    throw systemError(thrown, `read ${shown}`);
  } finally {
    await handle.close();
  }
}

/** The changes to make: one, or all occurrences with replace_all. */
async function find(bytes: Buffer, input: EditInput, shown: string, signal: AbortSignal): Promise<Change[]> {
  for (const [before, after] of variants(bytes, input)) {
    const changes = await occurrences(bytes, before, after, signal);
    if (changes.length === 0) continue;
    if (changes.length > MAX_CHANGES) {
      const message = `${shown}: old_string occurs more than ${MAX_CHANGES} times. Give a longer one.`;
      throw new SyscallError("INVALID", message);
    }
    if (changes.length === 1 || input.replace_all) return changes;
    const lines = changes.slice(0, 10).map((change) => lineAt(bytes, change.start));
    const more = changes.length > lines.length ? ", …" : "";
    const message = `${shown}: old_string occurs ${changes.length} times, in lines ${lines.join(", ")}${more}. Give more of the lines around the one you mean, or set replace_all.`;
    throw new SyscallError("INVALID", message);
  }
  throw new SyscallError("INVALID", `${shown}: ${await whyNotFound(bytes, input.old_string, signal)}`);
}

/** The texts as given, and with the line endings of the file: models write "\n". */
function variants(bytes: Buffer, input: EditInput): [Buffer, Buffer][] {
  const asGiven: [Buffer, Buffer] = [Buffer.from(input.old_string), Buffer.from(input.new_string)];
  const firstLine = bytes.indexOf("\n");
  if (firstLine < 1 || bytes[firstLine - 1] !== 13) return [asGiven];
  const withReturns = (text: string): Buffer => Buffer.from(text.replace(/\r?\n/g, "\r\n"));
  const inFile: [Buffer, Buffer] = [withReturns(input.old_string), withReturns(input.new_string)];
  return /\r/.test(input.old_string + input.new_string) ? [asGiven, inFile] : [inFile, asGiven];
}

async function occurrences(
  bytes: Buffer,
  before: Buffer,
  after: Buffer,
  signal: AbortSignal,
): Promise<Change[]> {
  const slice = new TimeSlice(signal);
  const changes: Change[] = [];
  for (let at = bytes.indexOf(before); at >= 0; at = bytes.indexOf(before, at + before.length)) {
    changes.push({ start: at, end: at + before.length, text: after });
    if (changes.length > MAX_CHANGES) break;
    if (slice.spent(CHANGE_COST)) await slice.rest();
  }
  signal.throwIfAborted();
  return changes;
}

function apply(bytes: Buffer, changes: readonly Change[]): Buffer {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const change of changes) {
    pieces.push(bytes.subarray(at, change.start), change.text);
    at = change.end;
  }
  pieces.push(bytes.subarray(at));
  return Buffer.concat(pieces);
}

const MAX_LINES = 50_000;
const MAX_WANTED = 200;
const LINE_CHARS = 300;
const MIN_LIKENESS = 0.5;

/** Explains why an exact text is not in a file, and shows the place that was probably meant. */
async function whyNotFound(bytes: Buffer, wanted: string, signal: AbortSignal): Promise<string> {
  const text = bytes.toString("utf8");
  const lines = text.split("\n", MAX_LINES).map((line) => line.replace(/\r$/, ""));
  if (/^\s*\d+\t/.test(wanted) && !text.includes(wanted)) {
    const bare = wanted.replace(/^\s*\d+\t/gm, "");
    if (text.replaceAll("\r\n", "\n").includes(bare))
      return "old_string begins with the line numbers that Read shows. They are not part of the file: leave them out.";
  }
  const wantedLines = wanted.split("\n").map((line) => line.trim());
  const spaced = await findByWords(lines, wantedLines, signal);
  if (spaced !== undefined) {
    const exact = lines.slice(spaced, spaced + wantedLines.length);
    return `old_string was not found, but with other whitespace it is at line ${spaced + 1}. The file has it as:\n${exact.map(cut).join("\n")}`;
  }
  const near = await mostAlike(lines, wantedLines.find((line) => line !== "") ?? "", signal);
  const message = "old_string was not found. It must be exactly as in the file, whitespace included.";
  if (near === undefined) return message;
  return `${message} The line most like its first line is line ${near + 1}:\n${cut(lines[near] ?? "")}`;
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
