/**
 * The zod types of configuration values. Their messages say what was expected and what came. The schema of a file is a
 * `z.lazy`, because most runs have no such file and building all schemas takes long.
 */

import { z } from "zod";
import { formatDuration, MAX_AGE_MS, MAX_DURATION_MS, parseDuration } from "../../lib/duration.ts";
import { nearestName } from "../../lib/edit-distance.ts";
import { hasCommand } from "../../lib/has-command.ts";
import { formatSize, parseSize } from "../../lib/size.ts";
import { keyOf, objectOf, optionOf } from "../../options/option-list.ts";
import type { FileKey, FileValue, OptionName } from "../../options/option-types.ts";
import type { Bounds, Measure } from "../../options/setting.ts";
import { SyscallError } from "../../plugin/index.ts";

/** How a file writes "no limit" and "not at all". `0` is ambiguous and refused. */
const UNLIMITED = "unlimited";
const NONE = "none";
/** The limit of unknown keys that a message explains. */
const MAX_NAMED = 50;

/** A mapping of exactly these keys. `later`: keys of the format that are refused as not supported in this version. */
export function strict<Shape extends z.ZodRawShape>(shape: Shape, later: readonly string[] = []) {
  const known = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code === "invalid_type")
        return `expected a mapping of ${known.join(", ")}, got ${shown(issue.input)}`;
      if (issue.code !== "unrecognized_keys") return undefined;
      const named = issue.keys.slice(0, MAX_NAMED);
      return named.map((key) => unknownKey(key, known, later)).join("\n");
    },
  });
}

/** The message of a type for a value of another type. */
export function expecting(what: string) {
  return { error: ({ input }: { input?: unknown }) => `expected ${what}, got ${shown(input)}` };
}

export function flag() {
  return z.boolean(expecting("true or false"));
}

/** A text that may be empty, such as a variable's value. */
export function anyText() {
  return z.string(expecting("a text, in quotes if need be"));
}

/** `what`: the items, such as "services". */
export function list<Item extends z.ZodType>(what: string, item: Item) {
  return z.array(item, expecting(`a list of ${what}`));
}

/** A mapping with keys of the file's own. `what`: such as "server names". */
export function mapping<Value extends z.ZodType>(what: string, value: Value, key = z.string()) {
  return z.record(key, value, {
    error: ({ code, input }) =>
      code === "invalid_type" ? `expected a mapping of ${what}, got ${shown(input)}` : undefined,
  });
}

/** The name of an environment variable. `wrong`: the message for another text. */
export function variable(wrong = "expected a variable's name") {
  return z.string(expecting("a variable's name")).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: wrong });
}

export function text(what = "a text") {
  return z.string(expecting(what)).min(1, { error: `expected ${what}, got an empty one` });
}

/** A command line for the shell that runs something. */
export function commandLine(what: string) {
  return text(what).refine(hasCommand, {
    error: ({ input }) => `expected ${what}, got ${shown(input)}, which runs nothing`,
  });
}

/** Refuses blank lines and comments: they would pass without a check. */
export function checkList() {
  return list("commands", commandLine("a command"));
}

export function texts(what = "a list of texts") {
  return z.array(text(), expecting(what));
}

/** Fallback models, in order: `model` or `provider/model`. */
export function modelNames() {
  const what = "a model, or provider/model";
  const name = text(what).regex(/^[^/].*[^/]$|^[^/]$/, expecting(what));
  return z.array(name, expecting("a list of models, or of provider/model"));
}

export function choice<const V extends readonly string[]>(values: V) {
  return z.enum(values, {
    error: ({ input }) => `expected one of ${values.join(", ")}, got ${shown(input)}${near(input, values)}`,
  });
}

/** A number within bounds. null only with `unlimited`. */
export function limit(bounds: Bounds) {
  return z.unknown().transform((input, context): number | null => {
    const read = readLimit(input, bounds);
    if (typeof read !== "string") return read;
    context.addIssue({ code: "custom", message: read });
    return z.NEVER;
  });
}

/** A `limit` that is never null. */
export function number(bounds: Omit<Bounds, "unlimited">) {
  return limit(bounds).transform((value, context): number => {
    if (value !== null) return value;
    context.addIssue({ code: "custom", message: `expected ${expected(bounds)}, got nothing` });
    return z.NEVER;
  });
}

/** The value as `rnix config` prints it and `limit` reads it. */
export function formatLimit(value: number | null, { measure, none }: Bounds): string {
  if (value === null) return UNLIMITED;
  if (value === 0 && none) return NONE;
  if (measure === "duration" || measure === "age") return formatDuration(value);
  return measure === "size" ? formatSize(value) : String(value);
}

/** A value as a message shows it, shortened. */
export function shown(input: unknown): string {
  if (input === undefined) return "nothing";
  if (input === null) return "an empty value";
  if (Array.isArray(input)) return "a list";
  if (typeof input === "object") return "a mapping";
  const written = typeof input === "string" ? JSON.stringify(input) : String(input);
  return written.length > 60 ? `${written.slice(0, 57)}…` : written;
}

function unknownKey(key: string, known: readonly string[], later: readonly string[]): string {
  if (later.includes(key)) return `"${key}" does not work in this version, so it is refused: remove it`;
  const meant = nearestName(key, known);
  const hint = meant === undefined ? `; the keys are ${known.join(", ")}` : `; did you mean "${meant}"?`;
  return `unknown key "${key}"${hint}`;
}

function near(input: unknown, values: readonly string[]): string {
  const meant = typeof input === "string" ? nearestName(input, values) : undefined;
  return meant === undefined ? "" : `; did you mean "${meant}"?`;
}

/** The number, null for unlimited, or an error message. */
function readLimit(input: unknown, bounds: Bounds): number | null | string {
  if (bounds.unlimited && input === UNLIMITED) return null;
  if (bounds.none && input === NONE) return 0;
  if (input === 0 || input === "0") return `expected ${expected(bounds)}, got 0; ${insteadOfZero(bounds)}`;
  const number = readMeasure(input, bounds);
  if (typeof number === "string") return number;
  const { min = floor(bounds.measure), max = ceiling(bounds.measure) } = bounds;
  return number < min || number > max ? `expected ${expected(bounds)}, got ${shown(input)}` : number;
}

function readMeasure(input: unknown, bounds: Bounds): number | string {
  const { measure } = bounds;
  if (measure === "dollars" || measure === "count") {
    const isRead = typeof input === "number" && (measure === "dollars" || Number.isSafeInteger(input));
    return isRead ? input : `expected ${expected(bounds)}, got ${shown(input)}`;
  }
  try {
    return measure === "size" ? parseSize(String(input)) : parseDuration(String(input), ceiling(measure));
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    return bounds.unlimited ? `${error.message}; write ${UNLIMITED} for no limit` : error.message;
  }
}

function expected(bounds: Bounds): string {
  const { measure, min = floor(bounds.measure), max = ceiling(measure), unlimited, none } = bounds;
  const write = (value: number) => formatLimit(value, bounds);
  const duration = "a duration";
  const what = {
    count: "a whole number",
    duration,
    age: duration,
    size: "a size",
    dollars: "an amount in USD",
  };
  const range =
    max === ceiling(measure) ? `of at least ${write(min)}` : `from ${write(min)} to ${write(max)}`;
  const words = [unlimited ? UNLIMITED : [], none ? NONE : []].flat();
  return [`${what[measure]} ${range}`, ...words].join(" or ");
}

function insteadOfZero({ unlimited, none }: Bounds): string {
  if (none) return `write ${NONE} for not at all`;
  return unlimited ? `write ${UNLIMITED} for no limit` : "leave the key out for the default";
}

/** A millionth of a dollar is less than any call costs. */
function floor(measure: Measure): number {
  return measure === "dollars" ? 0.000001 : 1;
}

function ceiling(measure: Measure): number {
  if (measure === "age") return MAX_AGE_MS;
  return measure === "duration" ? MAX_DURATION_MS : Number.MAX_SAFE_INTEGER;
}

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

/** The part that a model's address must not have; undefined for a valid one. Addresses are shown, recorded and extended. */
export function addressProblem(address: string): string | undefined {
  const url = URL.parse(address);
  if (url === null) return undefined;
  if (url.username + url.password !== "") return "a name and password: the key comes by api_key_env";
  if (url.search + url.hash !== "") return "a query: a key comes by api_key_env, and all else by extra";
  return undefined;
}
