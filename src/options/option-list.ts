/** Looks options up in the table: by a property, by command, with their flags, keys and settings. */

import type { FileKey, NameWith, OptionName, OptionSettings, OptionsOf } from "./option-types.ts";
import type { OptionCommand, RunOption } from "./run-option.ts";
import { RUN_OPTIONS } from "./run-options.ts";

export const OPTION_NAMES = Object.keys(RUN_OPTIONS).filter(isOptionName);

/** What the table says of an option. */
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

/** The options of which the table says this, in its order. */
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

/** An object of these entries. The caller has made each value for its name; `fromEntries` forgets which is whose. */
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
