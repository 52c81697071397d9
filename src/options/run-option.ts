/** What the table of run options says of one option. */

import type { Setting } from "./setting.ts";

/**
 * - `limit`: of `setting`, or `unlimited`; the process has null for that.
 * - `rules`: tools and patterns. `paths`: must exist.
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
  ofJobs?: false;
  /** Its key in files; absent: its name. */
  key?: string;
  /** It is a key of config.yaml, too. */
  setting?: Setting;
  /** It is a key of config.yaml with words; this is its value there without one, and its description. */
  words?: { default: string; about: string; choices?: readonly string[] };
  /** It is a key of agent.yaml. */
  agent?: true;
  /** It is a key of a supervisor's child in init.yaml. */
  init?: true;
  /** A process has it. The value comes from the request, else the agent, else the parent if inherited, else the settings. */
  process?: true;
  /**
   * A child has its parent's value, or a stricter one of its request or agent: the smaller number. What is stricter for
   * another kind of value, `inheritedOptions` of src/kernel/lifetime/spawn-limits.ts says.
   */
  inherited?: true;
  /** What it limits. A child's is taken out of its parent's. */
  limits?: "tokens" | "cost" | "steps" | "timeMs";
  /**
   * Where a resume finds it again. `options`: in the table `options` of proc-info.json. `head`: beside the prompt's head
   * in process-meta.json. A resume's own flag comes first.
   */
  recorded?: "options" | "head";
  /** How `rnix show` calls a recorded one. */
  shown?: string;
}
