/** The type of a line in the table of run options. */

import type { Setting } from "./setting.ts";

/**
 * - `count`: a whole number. `limit`: a number of `setting`'s measure, or `unlimited`, which is null in the process.
 * - `rules`: tools and patterns. `paths`: files and folders that must exist.
 * - `schema`: the flag names a file with JSON. `prompt`: a text, or `@FILE`.
 */
type Kind =
  | "text"
  | "list"
  | "rules"
  | "paths"
  | "choice"
  | "switch"
  | "count"
  | "limit"
  | "schema"
  | "prompt";

/** A command that takes options as flags. `rnix cron add` takes those of `spawn`, unless the option is not `ofJobs`. */
export type OptionCommand = "spawn" | "chat" | "resume";

export interface RunOption {
  kind: Kind;
  /** The values of a choice. */
  choices?: readonly string[];
  /** The commands that have the flag, each with its help. */
  help: Partial<Record<OptionCommand, string>>;
  /** The flag; absent: the option's name with dashes. */
  flag?: string;
  /** The placeholder of the flag's value. */
  hint?: string;
  /** Jobs do not take it. */
  ofJobs?: false;
  /** The option's key in files; absent: its name. */
  key?: string;
  /** The option is a key of config.yaml with a number; this is what config.yaml says of it. */
  setting?: Setting;
  /** The option is a key of config.yaml with a word or a list; this is its default there, and its description. */
  words?: { default: string; about: string; choices?: readonly string[] };
  /** The option is a key of agent.yaml. */
  agent?: true;
  /** The option is a key of a supervisor's child in init.yaml. */
  init?: true;
  /** A process has it. The value comes from the request, else the agent, else the parent if inherited, else the settings. */
  process?: true;
  /**
   * A child has its parent's value, or a stricter one of its request or agent: the smaller number. What is stricter for
   * another kind of value, `inheritedOptions` of src/kernel/lifetime/spawn-limits.ts says.
   */
  inherited?: true;
  /** The part of the budget that it limits: what a child uses counts for its parent, too. For a limit of each run alone, `inherited`. */
  limits?: "tokens" | "cost" | "steps" | "timeMs";
  /**
   * The record from which a resume restores the value. `options`: `options` of proc-info.json. `head`: process-meta.json,
   * beside the prompt's head. A flag of the resume replaces it. Absent: a resume does not restore it.
   */
  recorded?: "options" | "head";
  /** The name in `rnix show`, for a recorded option. Absent: `rnix show` leaves it out. */
  shown?: string;
}
