/** Replaces a document that programs without our lock, such as an editor, may write at the same time. */

import { basename, dirname, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { replaceDocument, versionOf } from "./document.ts";
import type { LockClock } from "./file-lock.ts";
import { type FsPort, ioError, linked, removeLeftover } from "./fs-port.ts";

interface ReplacePorts {
  fs: FsPort;
  clock: LockClock;
}

/** Maximum wait for another program that has the file open for writing. */
const WRITER_MS = 2_000;
const POLL_MS = 2;
/** Where the system can't tell who writes: a program that saves in place is done by then. */
const BLIND_MS = 20;

/**
 * Replaces the document if it still has the version `expected`; null: if there is none. Returns the new version, or null
 * when another program has changed it, also in the last moment: the new file and the old one swap their names, and what
 * was swapped out is compared. The caller holds the lock that all writers of Rnix take.
 */
export async function replaceUnchanged(
  path: string,
  text: string,
  expected: string | null,
  ports: ReplacePorts,
): Promise<string | null> {
  if ((await versionOf(path, ports.fs)) !== expected) return null;
  let placed = true;
  const version = await replaceDocument(path, text, ports.fs, async (temporary) => {
    placed =
      expected === null
        ? create(path, temporary, ports.fs)
        : await swapIn(path, temporary, expected, await newVersion(temporary, ports.fs), ports);
  });
  return placed ? version : null;
}

/**
 * Repairs what a killed writer left between swap and comparison. What an editor had saved there comes back; where it
 * can't, it is kept in `<document>.recovered`. Returns the documents of which something was kept there. The caller holds
 * the lock.
 */
export async function recoverSwaps(
  dir: string,
  names: readonly string[],
  ports: ReplacePorts,
): Promise<string[]> {
  const kept: string[] = [];
  for (const name of names) {
    const [, doc, before = "", after = ""] = SWAP.exec(name) ?? [];
    if (doc === undefined) continue;
    const swap = { path: join(dir, doc), other: join(dir, name), before, after };
    if (await recover(swap, ports)) kept.push(swap.path);
  }
  return kept;
}

/** The temporary name contains the hashes of the versions before and after the swap. */
const SWAP = /^~(.+)\.([0-9a-f]{12})\.([0-9a-f]{12})\.\d+-\d+\.swap\.tmp$/;
const DIGITS = 12;
const MAX_RECOVERED = 10;

interface Swap {
  path: string;
  /** The temporary file: it has the content that is not at `path`. */
  other: string;
  /** The beginnings of the versions. */
  before: string;
  after: string;
}

/** Returns false when another program has made the file meanwhile. */
function create(path: string, temporary: string, fs: FsPort): boolean {
  try {
    if (linked(fs, temporary, path)) removeLeftover(fs, temporary);
    else fs.rename(temporary, path);
    return true;
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
    removeLeftover(fs, temporary);
    return false;
  }
}

async function swapIn(
  path: string,
  temporary: string,
  expected: string,
  version: string,
  ports: ReplacePorts,
): Promise<boolean> {
  const { fs } = ports;
  const before = expected.slice(0, DIGITS);
  const after = version.slice(0, DIGITS);
  const own = temporary.match(/\.(\d+-\d+)\.tmp$/)?.[1] ?? "0-0";
  const other = join(dirname(path), `~${basename(path)}.${before}.${after}.${own}.swap.tmp`);
  fs.rename(temporary, other);
  const done = fs.swap(other, path);
  if (done === "unsupported") {
    fs.rename(other, path);
    return true;
  }
  if (done === "missing") {
    removeLeftover(fs, other);
    return false;
  }
  return settle({ path, other, before, after }, ports);
}

/**
 * The two files have swapped their names. Returns true when the new text has replaced the expected one. Otherwise
 * another program saved in between: its text gets the name back, and ours is removed.
 */
async function settle(swap: Swap, ports: ReplacePorts): Promise<boolean> {
  const { fs } = ports;
  const { path, other, before, after } = swap;
  const isQuiet = await untilQuiet(other, ports);
  if (isQuiet && (await versionOf(other, fs))?.startsWith(before)) {
    removeLeftover(fs, other);
    return true;
  }
  putBack(swap, fs);
  await untilQuiet(other, ports);
  const taken = await versionOf(other, fs);
  if (taken?.startsWith(after)) {
    removeLeftover(fs, other);
  } else if (taken !== null) {
    // The other program has saved once more, over our text: its later version keeps the name.
    putBack(swap, fs);
    if (fs.stat(other) !== null) keepBeside(swap, fs);
  }
  if (!isQuiet) {
    const message = `Another program keeps ${path} open for writing. Nothing was changed: close the file there, then try again.`;
    throw new SyscallError("UNAVAILABLE", message, { retryable: true });
  }
  return false;
}

function putBack({ path, other }: Swap, fs: FsPort): void {
  // Where the name is free meanwhile, the file just takes it.
  if (fs.swap(other, path) !== "swapped") fs.rename(other, path);
}

async function recover(swap: Swap, ports: ReplacePorts): Promise<boolean> {
  const { fs } = ports;
  await untilQuiet(swap.other, ports);
  const left = await versionOf(swap.other, fs);
  if (left === null) return false;
  if (left.startsWith(swap.before) || left.startsWith(swap.after)) {
    removeLeftover(fs, swap.other);
    return false;
  }
  // The killed writer has swapped out what an editor saved. Its own text was never confirmed to anyone.
  const now = await versionOf(swap.path, fs);
  if (now === null || now.startsWith(swap.after)) {
    fs.rename(swap.other, swap.path);
    return false;
  }
  keepBeside(swap, fs);
  return true;
}

/** Keeps a version as `<document>.recovered`, or with a number if that name is taken. */
function keepBeside({ path, other }: Swap, fs: FsPort): void {
  const names = Array.from({ length: MAX_RECOVERED }, (_, n) => `${path}.recovered${n === 0 ? "" : `-${n}`}`);
  const free = names.find((name) => fs.stat(name) === null) ?? names.at(-1) ?? path;
  fs.rename(other, free);
}

/** Waits until no program has the file open for writing. Returns false when one keeps it open. */
async function untilQuiet(path: string, { fs, clock }: ReplacePorts): Promise<boolean> {
  const deadline = clock.monotonic() + WRITER_MS;
  for (;;) {
    const writers = writersOf(path, fs);
    if (writers === false) return true;
    if (writers === null) {
      await pause(clock, BLIND_MS);
      return true;
    }
    if (clock.monotonic() >= deadline) return false;
    await pause(clock, POLL_MS);
  }
}

function writersOf(path: string, fs: FsPort): boolean | null {
  try {
    return fs.hasWriters(path);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return false;
    throw ioError(error, `look at ${basename(path)}`, path);
  }
}

function pause(clock: LockClock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.timer(ms, resolve));
}

async function newVersion(temporary: string, fs: FsPort): Promise<string> {
  const version = await versionOf(temporary, fs);
  if (version !== null) return version;
  throw new SyscallError("UNAVAILABLE", `${temporary} was removed while it was written. Try again.`);
}
