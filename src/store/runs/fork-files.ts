/** Copies the steps and files of a run into its fork. */

import { basename, dirname, join, relative } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { makeFolder, syncDirectory, syncFile } from "../files/document.ts";
import { type FsPort, ioError, linked, withFileAsync, writeAllAsync } from "../files/fs-port.ts";
import { TimeSlices } from "../files/time-slice.ts";
import { TREE } from "../plugin-store.ts";
import { isWholeResult, RESULTS } from "./blob-store.ts";
import { SPILL } from "./run-files.ts";
import type { RunWriter } from "./run-writer.ts";
import type { Compaction, StepRecord, ToolCallRecord } from "./schema.ts";

/** The folder below a run's folder for the data of its plugins. */
const PLUGINS = "plugins";
const CHUNK_BYTES = 1024 * 1024;
const BATCH = 8;

/** The run to fork, and the steps that the fork copies. */
interface Origin {
  uuid: string;
  dir: string;
  rootDir: string;
  steps: readonly StepRecord[];
  /** More files to copy, relative to its folder. */
  files?: readonly string[];
  /** Another user wrote the run: copy only results whose content matches their name. */
  foreign?: boolean;
}

/** Copies steps and their files into a new fork, the files first. */
export async function copyForkFiles(record: RunWriter, origin: Origin, fs: FsPort): Promise<void> {
  const { steps } = origin;
  await inheritFiles(fs, origin, record.dir);
  const slices = new TimeSlices();
  for (let at = 0; at < steps.length; at += BATCH) {
    record.inherit(steps.slice(at, at + BATCH).map((step) => inheritedStep(step, origin, record.dir)));
    await slices.pause();
  }
}

/**
 * Returns a step of another run as the fork in folder `to` records it. It names the original run. It has no inbox
 * and event numbers, children or usage of its own, and paths of copied files lead into the fork's folder.
 */
function inheritedStep(record: StepRecord, { uuid, dir }: Origin, to: string): StepRecord {
  const { inbox: _inbox, children: _children, so_far: _soFar, ...other } = record;
  const { n: _n, p: _p, ns: _ns, entries: _entries, ...step } = other;
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
 * Copies the files that the steps refer to, and the current data of the run's plugins. Results never change, so they
 * are hard-linked. All copies are durable on return. Missing files are skipped; readers of the record report them.
 */
async function inheritFiles(fs: FsPort, { dir: from, steps, ...o }: Origin, to: string): Promise<void> {
  const named = new Set([...(await blobsOf(from, steps)), ...(o.files ?? [])]);
  const plugins = o.foreign ? [] : await filesBelow(fs, join(from, PLUGINS));
  const files = o.foreign
    ? await wholeResults(fs, from, named)
    : [...named, ...plugins.map((path) => relative(from, path))];
  const { rootDir } = o;
  const isShared = !o.foreign && rootDir !== from;
  const shared = isShared ? await filesBelow(fs, join(rootDir, PLUGINS, TREE)) : [];
  const copies = [
    ...files.map((file) => ({ source: join(from, file), file })),
    ...shared.map((source) => ({ source, file: relative(rootDir, source) })),
  ];
  const folders = new Set<string>();
  for (const { source, file } of copies) {
    const path = join(to, file);
    makeFolder(dirname(path), fs);
    if (!(await inheritFile(fs, source, path))) continue;
    for (let dir = dirname(path); dir !== dirname(to); dir = dirname(dir)) folders.add(dir);
  }
  for (const folder of folders) await syncDirectory(folder, fs);
}

/** Returns the files that are results with the content that their name says. Links are not followed. */
async function wholeResults(fs: FsPort, from: string, named: ReadonlySet<string>): Promise<string[]> {
  if (fs.stat(join(from, RESULTS))?.isLink) return [];
  const whole: string[] = [];
  for (const file of named) if (await isWholeResult(fs, from, file)) whole.push(file);
  return whole;
}

/** Returns the results and program outputs that the calls refer to, relative to the run's folder. */
async function blobsOf(from: string, steps: readonly StepRecord[]): Promise<Set<string>> {
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
    if (errnoOf(error) === "ENOENT") return false;
    throw ioError(error, "copy a file of the forked run", from);
  }
}

async function copy(fs: FsPort, from: string, to: string): Promise<void> {
  await withFileAsync(fs, from, "read", (source) =>
    withFileAsync(fs, to, "replace", async (target) => {
      const chunk = new Uint8Array(CHUNK_BYTES);
      for (let position = 0; ; ) {
        const got = await fs.readAsync(source, chunk, position);
        if (got === 0) return;
        await writeAllAsync(fs, target, chunk.subarray(0, got));
        position += got;
      }
    }),
  );
}

/** Returns absolute paths; none when there is no such folder. */
async function filesBelow(fs: FsPort, folder: string): Promise<string[]> {
  if (!fs.stat(folder)?.isFolder) return [];
  const files: string[] = [];
  for (const name of await fs.list(folder)) {
    const path = join(folder, name);
    if (fs.stat(path)?.isFolder) files.push(...(await filesBelow(fs, path)));
    // Names with ~ are locks and temporary files.
    else if (!name.startsWith("~")) files.push(path);
  }
  return files;
}
