/** The options of a request as its process has them, and those that a record keeps. */

import { namesWith, objectOf } from "./option-list.ts";
import type { OptionName, OptionValues, ProcessOptions } from "./option-types.ts";

/** The limits of a run, as the wire and its record call them. */
export const LIMITS = namesWith({ kind: "limit" });

/** Those of the named options that were given. */
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
