/** Looks options up in the table: by a property, by command, with their flags, keys and settings. */

import type {
  FileKey,
  Limited,
  NameWith,
  OptionName,
  OptionSettings,
  OptionsOf,
  OptionValues,
  ProcessOptions,
  RunLimits,
} from "./option-types.ts";
import type { OptionCommand, RunOption } from "./run-option.ts";
import { RUN_OPTIONS } from "./run-options.ts";

export const OPTION_NAMES = Object.keys(RUN_OPTIONS).filter(isOptionName);

/** The option's line in the table. */
export function optionOf(name: OptionName): RunOption {
  return RUN_OPTIONS[name];
}

export function keyOf<K extends OptionName>(name: K): FileKey<K>;
export function keyOf(name: OptionName): string {
  return optionOf(name).key ?? name;
}

export function flagNameOf(name: OptionName): string {
  return optionOf(name).flag ?? name.replaceAll("_", "-");
}

/** The options that a command takes as flags. */
export function optionsOf<C extends OptionCommand>(command: C): readonly OptionsOf<C>[] {
  return namesFor(command, (option) => option.help[command] !== undefined);
}

/** The options that have these properties, in the order of the table. */
export function namesWith<const P extends Partial<RunOption>>(properties: P): readonly NameWith<P>[] {
  const says = Object.entries(properties);
  return namesFor(JSON.stringify(properties), (option) =>
    says.every(([property, value]) => Reflect.get(option, property) === value),
  );
}

/** The names found so far, by what was looked up: the table never changes. */
const FOUND = new Map<string, readonly OptionName[]>();

/** The options that `isOne` selects, looked up once per key. A key stands for one selection, as its caller's type does. */
function namesFor<K extends OptionName>(key: string, isOne: (option: RunOption) => boolean): readonly K[] {
  const names = FOUND.get(key) ?? OPTION_NAMES.filter((name) => isOne(optionOf(name)));
  FOUND.set(key, names);
  return names as readonly K[];
}

/** `Object.fromEntries` with the type that the caller knows: it made each value for its name. */
export function objectOf<T>(entries: Iterable<readonly [string, unknown]>): T {
  return Object.fromEntries(entries) as T;
}

/** The settings of options, by their keys in config.yaml. */
export const OPTION_SETTINGS = objectOf<OptionSettings>(
  OPTION_NAMES.map((name) => [keyOf(name), optionOf(name).setting] as const).filter(([, setting]) => setting),
);

function isOptionName(name: string): name is OptionName {
  return Object.hasOwn(RUN_OPTIONS, name);
}

/** The limits of a run, as the wire and its record call them. */
const LIMITS = namesWith({ kind: "limit" });

/** The named options that have a value in `from`. */
export function pickOptions<K extends OptionName>(
  from: OptionValues<K>,
  names: readonly K[],
): OptionValues<K> {
  return objectOf(names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]));
}

/** The options of a request as its process has them. 0 and absent mean the default. */
export function processOptions(request: OptionValues): ProcessOptions {
  const names = namesWith({ process: true }).filter((name) => request[name]);
  return objectOf(names.map((name) => [name, request[name] === "unlimited" ? null : request[name]]));
}

/** A value for each limit of a run, by its name on the wire and in records. */
export function limitsNamed<T>(make: (name: keyof RunLimits) => T): Record<keyof RunLimits, T> {
  return objectOf(LIMITS.map((name) => [name, make(name)]));
}

/** The limits of a budget, by the names that a budget has for them. */
export function budgetOf(limit: (name: keyof RunLimits) => number | null): Record<Limited, number | null> {
  return objectOf(LIMITS.map((name) => [RUN_OPTIONS[name].limits, limit(name)]));
}

/** The options of a process that one part of its record has. */
export function recordedOptions<In extends "options" | "head">(
  options: ProcessOptions,
  part: In,
): Pick<ProcessOptions, NameWith<{ recorded: In }> & keyof ProcessOptions> {
  const names = namesWith({ recorded: part }).filter((name) => options[name] !== undefined);
  return objectOf(names.map((name) => [name, options[name]]));
}

/** The options of a resumed run: those that the resume gives, else the recorded ones. */
export function restoredOptions(given: ProcessOptions, recorded: ProcessOptions): ProcessOptions {
  const names = [...namesWith({ recorded: "options" }), ...namesWith({ recorded: "head" })];
  return objectOf(names.map((name) => [name, given[name] ?? recorded[name]]));
}
