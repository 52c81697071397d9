import { basename, dirname, join, relative } from "node:path";
import { makeFolder, syncDirectory, syncFile } from "../files/document.ts";
import { errno, type FsPort, ioError, writeAllAsync } from "../files/fs-port.ts";
import { TimeSlices } from "../files/time-slice.ts";
import { isWholeResult, RESULTS } from "./blob-store.ts";
import { type RunWriter, SPILL } from "./run-writer.ts";
import type { Compaction, StepRecord, ToolCallRecord } from "./schema.ts";

/** In a run's folder: what its plugins keep for it alone. */
const PLUGINS = "plugins";
const CHUNK_BYTES = 1024 * 1024;
/** Written at once. */
const SOME = 8;

/** A run that is forked, and those of its steps that are taken over. */
interface Origin {
  uuid: string;
  dir: string;
  steps: readonly StepRecord[];
  /** Further files that it keeps, relative to its folder. */
  kept?: readonly string[];
  /** Another user wrote it: only results are taken over, and only those whose content is what their name says. */
  foreign?: boolean;
}

/** Gives a fork that was just made its first steps, and the files beside them first. */
export async function copyForkFiles(record: RunWriter, origin: Origin, fs: FsPort): Promise<void> {
  const { steps } = origin;
  await inheritFiles(fs, origin, record.dir);
  const slices = new TimeSlices();
  for (let at = 0; at < steps.length; at += SOME) {
    record.inherit(steps.slice(at, at + SOME).map((step) => inheritedStep(step, origin, record.dir)));
    await slices.pause();
  }
}

/**
 * A step of another run as a fork in the folder `to` records it. Who made it is told. What it acknowledged, brought
 * and used is not the fork's, and files that were kept have their names in its folder.
 */
function inheritedStep(record: StepRecord, { uuid, dir }: Origin, to: string): StepRecord {
  const { inbox: _inbox, children: _children, so_far: _soFar, ...step } = record;
  return {
    ...step,
    ...(step.compactions && {
      compactions: step.compactions.map((one) => inheritedCompaction(one, dir, to)),
    }),
    tool_calls: step.tool_calls.map((call) => inheritedCall(call, dir, to)),
    origin_uuid: step.origin_uuid ?? uuid,
  };
}

function inheritedCall({ inbox: _inbox, ...call }: ToolCallRecord, from: string, to: string): ToolCallRecord {
  const moved = (text: string | null): string | null => text && movedNames(text, from, to);
  return { ...call, result: moved(call.result), error: moved(call.error) };
}

function inheritedCompaction(compaction: Compaction, from: string, to: string): Compaction {
  const { cut, summary } = compaction;
  const moved = (text: string): string => movedNames(text, from, to);
  return {
    ...compaction,
    cut: cut.map(({ at, content }) => ({ at, content: moved(content) })),
    summary: summary && {
      ...summary,
      text: moved(summary.text),
      message: { ...summary.message, content: moved(summary.message.content) },
    },
  };
}

function movedNames(text: string, from: string, to: string): string {
  return text.replaceAll(`${from}/`, `${to}/`);
}

/**
 * Gives the fork the files its steps refer to, and what the plugins keep for the run, as that is now. Results never
 * change and take no space a second time. All of it is durable on return; what is missing by now is left out, and
 * whoever reads the record is told so.
 */
async function inheritFiles(fs: FsPort, { dir: from, steps, ...o }: Origin, to: string): Promise<void> {
  const named = new Set([...(await keptFiles(from, steps)), ...(o.kept ?? [])]);
  const plugins = o.foreign ? [] : await filesBelow(fs, join(from, PLUGINS));
  const files = o.foreign
    ? await wholeResults(fs, from, named)
    : [...named, ...plugins.map((path) => relative(from, path))];
  const folders = new Set<string>();
  for (const file of files) {
    const path = join(to, file);
    makeFolder(dirname(path), fs);
    if (!(await inheritFile(fs, join(from, file), path))) continue;
    for (let dir = dirname(path); dir !== dirname(to); dir = dirname(dir)) folders.add(dir);
  }
  for (const folder of folders) await syncDirectory(folder, fs);
}

/** Those that are results with the content that their name says. A link in their place leads nowhere. */
async function wholeResults(fs: FsPort, from: string, named: ReadonlySet<string>): Promise<string[]> {
  if (fs.stat(join(from, RESULTS))?.isLink) return [];
  const whole: string[] = [];
  for (const file of named) if (await isWholeResult(fs, from, file)) whole.push(file);
  return whole;
}

/** Results and outputs of programs that the calls name, relative to the run's folder. */
async function keptFiles(from: string, steps: readonly StepRecord[]): Promise<Set<string>> {
  const found = new Set<string>();
  const prefix = `${from}/`.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const named = new RegExp(`${prefix}((?:${RESULTS}|${SPILL})/[\\w.-]*\\w)`, "g");
  const calls = steps.flatMap(({ tool_calls }) => tool_calls);
  const compactions = steps.flatMap((step) => step.compactions ?? []);
  for (const { kept } of calls) if (kept) found.add(kept.file);
  const texts = [
    ...calls.flatMap(({ result, error }) => [result, error]),
    ...compactions.flatMap(({ cut, summary }) => [
      ...cut.map(({ content }) => content),
      summary?.message.content,
    ]),
  ];
  const slices = new TimeSlices();
  for (const text of texts) {
    await slices.pause();
    for (const [, file = ""] of text?.matchAll(named) ?? []) found.add(file);
  }
  return found;
}

async function inheritFile(fs: FsPort, from: string, to: string): Promise<boolean> {
  try {
    if (basename(dirname(from)) !== RESULTS || !linked(fs, from, to)) await copy(fs, from, to);
    await syncFile(to, fs);
    return true;
  } catch (error) {
    if (errno(error) === "ENOENT") return false;
    throw ioError(error, "take over a file of the run that is forked", from);
  }
}

/** False where the disk knows no second names, or has no more of them for this file. */
function linked(fs: FsPort, from: string, to: string): boolean {
  try {
    fs.link?.(from, to);
    return fs.link !== undefined;
  } catch (error) {
    if (["EPERM", "EMLINK", "EOPNOTSUPP", "ENOSYS", "ENOTSUP"].includes(errno(error) ?? "")) return false;
    throw error;
  }
}

async function copy(fs: FsPort, from: string, to: string): Promise<void> {
  const source = fs.open(from, "read");
  try {
    const target = fs.open(to, "replace");
    try {
      const chunk = new Uint8Array(CHUNK_BYTES);
      for (let position = 0; ; ) {
        const got = await fs.readAsync(source, chunk, position);
        if (got === 0) return;
        await writeAllAsync(fs, target, chunk.subarray(0, got));
        position += got;
      }
    } finally {
      fs.close(target);
    }
  } finally {
    fs.close(source);
  }
}

/** Absolute. None where there is no such folder. */
async function filesBelow(fs: FsPort, folder: string): Promise<string[]> {
  if (!fs.stat(folder)?.isFolder) return [];
  const files: string[] = [];
  for (const name of await fs.list(folder)) {
    const path = join(folder, name);
    if (fs.stat(path)?.isFolder) files.push(...(await filesBelow(fs, path)));
    // Locks, and what somebody writes at this moment.
    else if (!name.startsWith("~")) files.push(path);
  }
  return files;
}
