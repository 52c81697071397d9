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
export function optionsOf<C extends OptionCommand>(command: C): OptionsOf<C>[] {
  return OPTION_NAMES.filter((name): name is OptionsOf<C> => optionOf(name).help[command] !== undefined);
}

/** The options of which the table says this, in its order. */
export function namesWith<const P extends Partial<RunOption>>(properties: P): NameWith<P>[] {
  const says = new Map<string, unknown>(Object.entries(properties));
  return OPTION_NAMES.filter((name): name is NameWith<P> => {
    const option = new Map<string, unknown>(Object.entries(RUN_OPTIONS[name]));
    return [...says].every(([property, value]) => option.get(property) === value);
  });
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
