/** The options of a request as its process has them, and those that a record keeps. */

import { namesWith, objectOf } from "./option-list.ts";
import type {
  Limited,
  NameWith,
  OptionName,
  OptionValues,
  ProcessOptions,
  RunLimits,
} from "./option-types.ts";
import { RUN_OPTIONS } from "./run-options.ts";

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

/** A value for each limit of a run, by its name on the wire and in records. */
export function limitsNamed<T>(make: (name: keyof RunLimits) => T): Record<keyof RunLimits, T> {
  return objectOf(LIMITS.map((name) => [name, make(name)]));
}

/** The limits of a budget, each as the option says. */
export function budgetOf(limit: (name: keyof RunLimits) => number | null): Record<Limited, number | null> {
  return objectOf(LIMITS.map((name) => [RUN_OPTIONS[name].limits, limit(name)]));
}

/** What a record keeps of the options of a process, in one of its parts. */
export function recordedOptions<In extends "options" | "head">(
  options: ProcessOptions,
  part: In,
): Pick<ProcessOptions, NameWith<{ recorded: In }> & keyof ProcessOptions> {
  const names = namesWith({ recorded: part }).filter((name) => options[name] !== undefined);
  return objectOf(names.map((name) => [name, options[name]]));
}

/** The recorded options of a resumed run, under those that the resume gives. */
export function restoredOptions(given: ProcessOptions, recorded: ProcessOptions): ProcessOptions {
  const names = [...namesWith({ recorded: "options" }), ...namesWith({ recorded: "head" })];
  return objectOf(names.map((name) => [name, given[name] ?? recorded[name]]));
}
