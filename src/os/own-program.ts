/** Puts this binary, as `rnix`, on the PATH of the programs of runs. */

import { mkdirSync, readdirSync, rmSync, statSync, symlinkSync } from "node:fs";
import { delimiter, join } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";

const NAME = "rnix";

/**
 * A folder of one kernel that holds nothing but a link to the running binary. It comes first on the PATH, so that a run
 * finds the same Rnix, and every other program where it found it before. It is made when it is first needed.
 */
export class OwnProgram {
  readonly #folder: string;
  #isMade = false;

  /** `folder`: of this kernel alone. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The environment with the folder on its PATH. Without a PATH, and outside the compiled binary, it stays as it is. */
  onPath(env: Record<string, string>): Record<string, string> {
    const { PATH } = env;
    if (!PATH || !isCompiled()) return env;
    this.#make();
    return { ...env, PATH: `${this.#folder}${delimiter}${PATH}` };
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #make(): void {
    if (this.#isMade) return;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    symlinkSync(runningBinary(), join(this.#folder, NAME));
    this.#isMade = true;
  }
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
