/** Puts this binary, as `rnix`, on the PATH of the programs of runs. */

import { mkdirSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { readVariables } from "./process-table.ts";

const NAME = "rnix";

/**
 * A folder of one kernel that holds nothing but a link to the running binary. It comes first on the PATH, so that a run
 * finds the same Rnix, and every other program where it found it before. It is made when it is first needed.
 */
export class OwnProgram {
  readonly #folder: string;
  /** Dead kernels whose units continue to run here. */
  readonly #dead = new Set<string>();
  #isMade = false;

  /** `folder`: of this kernel alone. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The environment with the folder on its PATH. Without a PATH, and outside the compiled binary, it stays as it is. */
  onPath(env: Record<string, string>): Record<string, string> {
    const { PATH } = env;
    if (!PATH || !isCompiled()) return env;
    if (!this.#isMade) makeLink(this.#folder);
    this.#isMade = true;
    return { ...env, PATH: `${this.#folder}${delimiter}${PATH}` };
  }

  /** The program of a unit of a dead kernel, which has that kernel's folder on its PATH: until here ends, it leads here. */
  standIn(pid: number): void {
    const folder = firstOnPathOf(pid);
    if (folder === undefined || dirname(folder) !== dirname(this.#folder)) return;
    const kernelId = basename(folder);
    if (folder === this.#folder || this.#dead.has(kernelId)) return;
    this.#dead.add(kernelId);
    rmSync(folder, { recursive: true, force: true });
    makeLink(folder);
  }

  standsInFor(kernelId: string): boolean {
    return this.#dead.has(kernelId);
  }

  close(): void {
    const dead = [...this.#dead].map((kernelId) => join(dirname(this.#folder), kernelId));
    for (const folder of [this.#folder, ...dead]) rmSync(folder, { recursive: true, force: true });
  }
}

function makeLink(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  symlinkSync(runningBinary(), join(folder, NAME));
}

/** The first folder on the PATH that a process was started with; undefined where the system does not show it. */
function firstOnPathOf(pid: number): string | undefined {
  return readVariables(pid, ["PATH"])[0]?.split(delimiter)[0];
}

/** Removes the folders of kernels that are dead. */
export function removeDeadPrograms(folders: string, isAlive: (kernelId: string) => boolean): void {
  for (const kernelId of namesIn(folders)) {
    if (!isAlive(kernelId)) rmSync(join(folders, kernelId), { recursive: true, force: true });
  }
}

/** Asked once: the runtime opens the file at each use of `Bun.main`. */
function isCompiled(): boolean {
  compiled ??= Bun.main.startsWith("/$bunfs/");
  return compiled;
}

let compiled: boolean | undefined;

/** The command line that starts this binary again. */
export function ownCommand(): string[] {
  return isCompiled() ? [runningBinary()] : [process.execPath, Bun.main];
}

/** Its file; /proc names it when another build has replaced that, but not to a program in another user namespace. */
function runningBinary(): string {
  if (process.platform !== "linux") return process.execPath;
  const running = `/proc/${process.pid}/exe`;
  return inodeOf(process.execPath) === inodeOf(running) ? process.execPath : running;
}

function inodeOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return [];
    throw error;
  }
}
