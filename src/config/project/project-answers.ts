/** Which lines of `allow_always` in a project's config.yaml a person has written by an answer: these need no other trust. */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { FileCache, folderIdentity, jsonOf, writeAtomic } from "../files/file.ts";
import type { Project } from "./project.ts";

const VERSION = 2;

const AnswersFile = z.lazy(() =>
  z.object({
    v: z.literal(VERSION),
    project: z.string(),
    /** Identifies the folder: the answers do not count for another folder at the same path. */
    folder: z.string(),
    rules: z.array(z.string()),
  }),
);

/** The answers for one project, in the user's data folder beside its trust, never in the project. */
export class ProjectAnswers {
  readonly #file: string;
  readonly #project: Project;

  constructor(userDataDir: string, project: Project) {
    this.#file = join(userDataDir, "trust", `${project.id}.answers`);
    this.#project = project;
  }

  /** Empty without a project, and in a folder that has replaced the one that was answered for. */
  get rules(): readonly string[] {
    if (this.#project.kind === "none") return [];
    const file = files.get(this.#file);
    return file === null || file.folder !== folderIdentity(this.#project.dir) ? [] : file.rules;
  }

  /** No rules: no answers are left. */
  set(rules: readonly string[]): void {
    if (rules.length === 0) {
      rmSync(this.#file, { force: true });
      return;
    }
    const { dir } = this.#project;
    const file = { v: VERSION, project: dir, folder: folderIdentity(dir), rules: [...new Set(rules)] };
    writeAtomic(this.#file, `${JSON.stringify(file, null, 2)}\n`);
  }
}

/** A file of an older version counts as none: its calls are asked for again. */
const files = new FileCache((text, file): z.infer<typeof AnswersFile> | null => {
  const parsed = AnswersFile.safeParse(jsonOf(text));
  if (parsed.success) return parsed.data;
  if (z.object({ v: z.literal(1) }).safeParse(jsonOf(text)).success) return null;
  throw new SyscallError(
    "INVALID",
    `${file}: expected the answers of version ${VERSION}; it may have been written by a newer rnix. Remove it to be asked again.`,
  );
});
