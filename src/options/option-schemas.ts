/** The zod types of run options in requests and records. */

import { z } from "zod";
import { objectOf, optionOf } from "./option-list.ts";
import type { OptionName, OptionValue } from "./option-types.ts";
import type { RunOption } from "./run-option.ts";

type OptionSchemas<K extends OptionName> = { [Name in K]: z.ZodOptional<z.ZodType<OptionValue<Name>>> };

/** The fields of an object with these options. `least`: with 0, the number 0 means the default. */
export function optionSchemas<K extends OptionName>(names: readonly K[], least: 0 | 1 = 0): OptionSchemas<K> {
  // A schema costs more to build than to use: options of one kind share theirs.
  const shared = new Map<string, z.ZodType>();
  return objectOf(
    names.map((name) => {
      const option = optionOf(name);
      const isNumber = option.kind === "limit" || option.kind === "count";
      const key = isNumber || option.choices ? name : option.kind;
      const schema = shared.get(key) ?? schemaOf(option, least).optional();
      shared.set(key, schema);
      return [name, schema] as const;
    }),
  );
}

function schemaOf({ kind, choices, setting }: RunOption, least: number): z.ZodType {
  switch (kind) {
    case "choice":
      return z.enum(choices ?? []);
    case "count":
      return z
        .int()
        .min(least)
        .max(setting?.max ?? Number.MAX_SAFE_INTEGER);
    case "limit": {
      const number = setting?.measure === "dollars" ? z.number() : z.int();
      return z.union([least === 0 ? number.nonnegative() : number.positive(), z.literal("unlimited")]);
    }
    case "switch":
      return z.boolean();
    case "schema":
      return z.record(z.string(), z.unknown());
    case "list":
    case "rules":
    case "paths":
      return z.array(z.string());
    case "text":
    case "prompt":
      return z.string();
  }
}
