/** The types that follow from the table of run options. */

import type { OptionCommand, RunOption } from "./run-option.ts";
import type { RUN_OPTIONS } from "./run-options.ts";
import type { Setting } from "./setting.ts";

type Table = typeof RUN_OPTIONS;
export type OptionName = keyof Table;
export type NameWith<Property> = { [K in OptionName]: Table[K] extends Property ? K : never }[OptionName];

interface Values {
  text: string;
  prompt: string;
  list: string[];
  rules: string[];
  paths: string[];
  switch: boolean;
  count: number;
  limit: number | "unlimited";
  schema: Record<string, unknown>;
}

/** The value of an option in a request. */
export type OptionValue<K extends OptionName> = Table[K] extends { choices: readonly (infer C)[] }
  ? C
  : Table[K]["kind"] extends keyof Values
    ? Values[Table[K]["kind"]]
    : never;

/** Options of a request. */
export type OptionValues<K extends OptionName = OptionName> = { [Name in K]?: OptionValue<Name> };

/** The options of a process. */
export type ProcessOptions = { [K in NameWith<{ process: true }>]?: FileValue<K> };

/** What a budget limits. */
export type Limited = NonNullable<RunOption["limits"]>;

/** The value of an option in a file, and of a process; null for no limit. */
export type FileValue<K extends OptionName> = Table[K] extends { kind: "limit" }
  ? number | null
  : OptionValue<K>;

/** The options that an agent may have. */
export type AgentOptions = { [K in NameWith<{ agent: true }>]?: FileValue<K> };

/** The limits of a run and of its children: null for none. */
export type RunLimits = Record<NameWith<{ kind: "limit" }>, number | null>;

/** The key of an option in files. */
export type FileKey<K extends OptionName> = K extends OptionName
  ? Table[K] extends { key: infer Key extends string }
    ? Key
    : K
  : never;

type Dashed<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}-${Dashed<Tail>}`
  : Name;

/** The name of an option's flag, without its dashes. */
export type FlagName<K extends OptionName> = Table[K] extends { flag: infer Flag extends string }
  ? Flag
  : Dashed<K>;

/** The settings among the options, by their keys. */
export type OptionSettings = {
  [K in NameWith<{ setting: Setting }> as FileKey<K>]: Table[K]["setting"];
};

/** The options that a command takes as flags. */
export type OptionsOf<C extends OptionCommand> = NameWith<{ help: Record<C, string> }>;
