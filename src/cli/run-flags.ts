/** The flags of run options, and the fields of the requests that they give. */

import { flagNameOf, objectOf, optionOf, optionsOf } from "../options/option-list.ts";
import type {
  FlagName,
  NameWith,
  OptionName,
  OptionsOf,
  OptionValue,
  OptionValues,
} from "../options/option-types.ts";
import type { OptionCommand } from "../options/run-option.ts";
import type { FileChange, Receipt } from "../protocol/methods.ts";
import { absolutePath, jsonObject, textOrFile } from "./files/paths.ts";
import {
  bool,
  choice,
  count,
  type Flag,
  type FlagValues,
  limit,
  list,
  rules,
  text,
  variables,
} from "./flags.ts";
import type { Io, Session } from "./io.ts";

type Lists = NameWith<{ kind: "list" }> | NameWith<{ kind: "rules" }> | NameWith<{ kind: "paths" }>;
type Given<K extends OptionName> = K extends Lists
  ? string[]
  : K extends NameWith<{ kind: "switch" }>
    ? boolean
    : (K extends NameWith<{ kind: "schema" }> ? string : OptionValue<K>) | undefined;

type OptionFlags<C extends OptionCommand> = { [K in OptionsOf<C> as FlagName<K>]: Flag<Given<K>> };

/** The flags of the options that a command takes. */
export function optionFlags<C extends OptionCommand>(command: C): OptionFlags<C> {
  return objectOf(optionsOf(command).map((name) => [flagNameOf(name), flagOf(name, command)]));
}

function flagOf(name: OptionName, command: OptionCommand): Flag<unknown> {
  const { kind, help, hint = "", choices = [], setting } = optionOf(name);
  const about = help[command] ?? "";
  const kinds = {
    text: () => text(about, hint),
    prompt: () => text(about, hint, { file: "read @" }),
    schema: () => text(about, hint, { file: "read" }),
    list: () => list(about, hint),
    paths: () => list(about, hint),
    rules: () => rules(about),
    choice: () => choice(about, choices),
    switch: () => bool(about),
    count: () => count(about, hint),
    limit: () => limit(about, hint, setting?.measure),
  };
  return kinds[kind]();
}

/** The options that the flags give, as fields of a request. Fails with USAGE for a file that can't be used. */
export async function optionFields<C extends OptionCommand>(
  io: Io,
  command: C,
  flags: Partial<FlagValues<OptionFlags<C>>>,
): Promise<OptionValues<OptionsOf<C>>> {
  const given = new Map<string, unknown>(Object.entries(flags));
  const fields: [string, unknown][] = [];
  for (const name of optionsOf(command)) {
    const flag = flagNameOf(name);
    const field = await fieldOf(io, `--${flag}`, optionOf(name).kind, given.get(flag));
    if (field !== undefined && field !== false) fields.push([name, field]);
  }
  return objectOf(fields);
}

async function fieldOf(io: Io, flag: string, kind: string, given: unknown): Promise<unknown> {
  if (Array.isArray(given)) {
    if (given.length === 0) return undefined;
    return kind === "paths" ? given.map((path: string) => absolutePath(io, flag, path)) : given;
  }
  if (typeof given !== "string") return given;
  if (kind === "schema") return jsonObject(io, flag, given);
  return kind === "prompt" ? textOrFile(io, flag, given) : given;
}

const OF_SPAWN = optionFlags("spawn");
const { "resume-on-restart": _, ...ofJobs } = OF_SPAWN;

/** Where a run works, and its variables. */
const PLACE_FLAGS = {
  cwd: text("run in this folder", "DIR"),
  env: variables("set a variable for the run's programs; with --base, let one through"),
};

/** The flags of a spawn that describe its run. */
export const SPAWN_FLAGS = { ...OF_SPAWN, ...PLACE_FLAGS };

/** Those that a scheduled job takes, too. */
export const JOB_RUN_FLAGS = { ...ofJobs, ...PLACE_FLAGS };

const report = (about: string) => text(about, "FILE", { file: "write" });

export const REPORT_FLAGS = {
  summary: report("write the end of the run as Markdown; on GitHub the step's summary gets it too"),
  junit: report("write the run and its checks as a JUnit report"),
  "code-quality": report("write the places that a failed check names as GitLab's code quality report"),
};

export type ReportFiles = FlagValues<typeof REPORT_FLAGS>;

/** What a report is about. */
export interface ReportedRun {
  intent: string;
  /** The folder of the run, absolute. */
  cwd: string;
  receipt: Receipt;
  /** What the command that resumes the run needs. */
  resumeFlags: readonly string[];
  changes: readonly FileChange[] | null;
}

/** Writes the reports at the end of a run. */
export type WriteReports = (receipt: Receipt, session: Session | null) => Promise<void>;

/** Called before the run. undefined: no report is asked for. */
export async function reportsOf(
  io: Io,
  files: ReportFiles,
  run: Omit<ReportedRun, "receipt" | "changes">,
): Promise<WriteReports | undefined> {
  const { summary, junit, "code-quality": quality } = files;
  if ([summary, junit, quality].every((file) => file === undefined) && !isGitHub(io)) return undefined;
  const { Reports } = await import("./report/reports.ts");
  return new Reports(io, files).begin(run);
}

export function isGitHub({ env }: Pick<Io, "env">): boolean {
  return env.GITHUB_ACTIONS === "true";
}
