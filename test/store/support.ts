import { onTestFinished } from "bun:test";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../src/plugin/index.ts";
import { type FsPort, realFs } from "../../src/store/files/fs-port.ts";
import { memoryFolder } from "../support/memory-folder.ts";

/** A folder of the running test's own, removed after it. */
export function temporaryFolder(where = memoryFolder): string {
  const dir = mkdtempSync(join(where, "rnix-store-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** The real file system with some operations replaced. */
export function fsWith(changes: Partial<FsPort>): FsPort {
  return { ...realFs, ...changes };
}

export function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}

/** The code of the SyscallError it throws; fails on any other error. */
export async function codeOf(attempt: () => unknown): Promise<string | undefined> {
  return (await errorOf(attempt))?.code;
}

export async function errorOf(attempt: () => unknown): Promise<SyscallError | undefined> {
  try {
    await attempt();
    return undefined;
  } catch (error) {
    if (error instanceof SyscallError) return error;
    throw error;
  }
}

/** Every file and folder below, with its permission bits. */
export function modes(dir: string, below = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const entry of readdirSync(join(dir, below), { withFileTypes: true })) {
    const name = join(below, entry.name);
    found[name] = (statSync(join(dir, name)).mode & 0o777).toString(8);
    if (entry.isDirectory()) Object.assign(found, modes(dir, name));
  }
  return found;
}

/** How many files below this folder this process has open. */
export function openFiles(dir: string): number {
  const targets = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // The descriptor of this very listing.
    }
  });
  return targets.filter((target) => target.startsWith(dir)).length;
}

/** Starts one of the programs of `programs.ts`. The caller waits for its end. */
export function program(name: string, ...args: string[]) {
  return Bun.spawn([process.execPath, join(import.meta.dir, "programs.ts"), name, ...args], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
}

/** Reads the output until `text` came. */
export async function until(stream: ReadableStream<Uint8Array>, text: string): Promise<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let seen = "";
  while (!seen.includes(text)) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`the program ended before it said ${JSON.stringify(text)}: ${seen}`);
    seen += decoder.decode(value, { stream: true });
  }
  reader.releaseLock();
  return seen;
}
