/** What a person has allowed in every run of a project, by the answer "always in this project". */

import { rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { SyscallError } from "../plugin/index.ts";
import { FileCache, folderIdentity, jsonOf, writeAtomic } from "./file.ts";
import type { Project } from "./project.ts";

const VERSION = 1;
/** Maximum rules of one project. */
const MAX_RULES = 500;

const AnswersFile = z.lazy(() =>
  z.object({
    v: z.literal(VERSION),
    project: z.string(),
    /** Identifies the folder: the answers do not count for another folder at the same path. */
    folder: z.string(),
    allowed: z.array(z.object({ rule: z.string().max(1_000), since: z.string() })).max(MAX_RULES),
  }),
);

/** A rule whose calls are not asked for in this project. */
interface AllowedRule {
  rule: string;
  since: string;
}

/** The answers of one project, in the user's data folder beside its trust, never in the project. */
export class ProjectAnswers {
  readonly #file: string;
  readonly #project: Project;

  constructor(userDataDir: string, project: Project) {
    this.#file = join(userDataDir, "trust", `${project.id}.answers`);
    this.#project = project;
  }

  /** Empty without a project, and in a folder that has replaced the one that was answered for. */
  get allowed(): readonly AllowedRule[] {
    if (this.#project.kind === "none") return [];
    const file = files.get(this.#file);
    return file === null || file.folder !== folderIdentity(this.#project.dir) ? [] : file.allowed;
  }

  get rules(): string[] {
    return this.allowed.map(({ rule }) => rule);
  }

  /** `now`: unix ms. Fails with EXHAUSTED when the project has too many. */
  allow(rules: readonly string[], now: number): void {
    const before = this.allowed;
    const fresh = rules.filter((rule) => !before.some((one) => one.rule === rule));
    if (fresh.length === 0) return;
    if (before.length + fresh.length > MAX_RULES) {
      throw new SyscallError(
        "EXHAUSTED",
        `${this.#project.dir} has ${before.length} allowed rules, and at most ${MAX_RULES} are kept. \`rnix trust --show\` lists them, \`rnix trust --ask-again RULE\` withdraws one.`,
      );
    }
    const since = new Date(now).toISOString();
    this.#write([...before, ...fresh.map((rule) => ({ rule, since }))]);
  }

  /** Asks for these calls again. Returns the rules that were not allowed. */
  withdraw(rules: readonly string[]): string[] {
    const before = this.allowed;
    const left = before.filter(({ rule }) => !rules.includes(rule));
    if (left.length < before.length) this.#write(left);
    return rules.filter((rule) => !before.some((one) => one.rule === rule));
  }

  /** Asks for everything again. */
  clear(): void {
    rmSync(this.#file, { force: true });
  }

  #write(allowed: readonly AllowedRule[]): void {
    if (allowed.length === 0) {
      this.clear();
      return;
    }
    const { dir } = this.#project;
    const file = { v: VERSION, project: dir, folder: folderIdentity(dir), allowed };
    writeAtomic(this.#file, `${JSON.stringify(file, null, 2)}\n`);
  }
}

const files = new FileCache((text, file): z.infer<typeof AnswersFile> => {
  const parsed = AnswersFile.safeParse(jsonOf(text));
  if (parsed.success) return parsed.data;
  throw new SyscallError(
    "INVALID",
    `${file}: expected the answers of version ${VERSION}; it may have been written by a newer rnix. Remove it to be asked again.`,
  );
});
