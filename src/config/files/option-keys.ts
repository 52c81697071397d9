/** Run options as keys of configuration files. */

import { z } from "zod";
import { keyOf, objectOf, optionOf } from "../../options/option-list.ts";
import type { FileKey, FileValue, OptionName } from "../../options/option-types.ts";
import { choice, flag, limit, text, texts } from "./values.ts";

type OptionKeys<K extends OptionName> = { [N in K as FileKey<N>]: z.ZodOptional<z.ZodType<FileValue<N>>> };

/** The types of the keys of these options, each optional. */
export function optionKeys<K extends OptionName>(names: readonly K[]): OptionKeys<K> {
  return objectOf(names.map((name) => [keyOf(name), schemaOf(name).optional()]));
}

function schemaOf(name: OptionName): z.ZodType {
  const { kind, setting, choices } = optionOf(name);
  if (setting) return limit(setting);
  if (choices) return choice(choices);
  if (kind === "switch") return flag();
  if (kind === "list") return z.preprocess((value) => (typeof value === "string" ? [value] : value), texts());
  return kind === "rules" ? texts() : text();
}

/** The options that a file has, by their names. */
export function optionsIn<K extends OptionName>(
  file: { [N in K as FileKey<N>]?: FileValue<N> },
  names: readonly K[],
): { [N in K]?: FileValue<N> } {
  const values = new Map<string, unknown>(Object.entries(file));
  const given = names.filter((name) => values.get(keyOf(name)) !== undefined);
  return objectOf(given.map((name) => [name, values.get(keyOf(name))]));
}
