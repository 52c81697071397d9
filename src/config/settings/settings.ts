/** The settings of one command: the defaults, under the user's config.yaml, under the project's. */

import { join } from "node:path";
import { z } from "zod";
import { ASK_MODES, type AskMode, isStricter } from "../../lib/ask-modes.ts";
import { LastEqual } from "../../lib/caches.ts";
import type { Limit } from "../../options/definitions.ts";
import { OPTION_NAMES, objectOf, optionOf } from "../../options/option-list.ts";
import type { NameWith } from "../../options/option-types.ts";
import type { Setting } from "../../options/setting.ts";
import { isSetting, SETTINGS, type SettingKey, type SettingValues } from "../../options/settings.ts";
import { type ConfigSources, refuseEscape } from "../config-sources.ts";
import { choice, commandLine, formatLimit, limit, list, strict, text, texts } from "../files/values.ts";
import { type Checked, placeIn, readYaml, type YamlText, yamlError } from "../files/yaml.ts";
import type { Project } from "../project/project.ts";
import { asksTrust, classOf } from "../trust/project-keys.ts";
import { alwaysPart, leftOutText, type TrustRequest } from "../trust/trust.ts";
import { OWN_KEYS, OWN_SETTINGS, type OwnKey, type OwnSettings } from "./own-settings.ts";

export interface Settings {
  values: SettingValues;
  /** The settings that are words. */
  words: WordValues;
  /** Rules whose calls no person is asked for, of the user and of the project, each with its place. */
  allowAlways: AlwaysRule[];
  /** The settings of each plugin, by its name: the project's keys over the user's. */
  plugins: Record<string, Record<string, unknown>>;
  /** The settings that are mappings and the user's alone. */
  own: OwnSettings;
  /** What was left out because the project is not trusted, for the user to read. */
  withheld: string[];
  /** What trust is asked for in the project's file, trusted or not. */
  asked: TrustRequest[];
  /** File, line and column of each setting that a file has. */
  sources: ReadonlyMap<Key, string>;
}

export interface AlwaysRule {
  rule: string;
  /** File, line and column. */
  source: string;
}

/** One row of `rnix config`. */
export interface SettingLine {
  key: Key;
  value: string;
  default: string;
  /** "default", or the file with line and column. */
  source: string;
  about: string;
  scope: Setting["scope"];
}

type About = Pick<Setting, "about" | "scope">;

/** Without a project, or with one of kind "none", only the user's file counts. */
type SettingsSources = Pick<ConfigSources, "configDir"> & Partial<Pick<ConfigSources, "project" | "trust">>;

/**
 * Reads both files. INVALID names file, line and column. A project's limit counts without trust where it is smaller
 * than the user's. A larger one needs trust, and so does `plugins`, which may move a key or run code.
 */
export async function loadSettings({ configDir, project, trust }: SettingsSources): Promise<Settings> {
  const user = await readConfig(join(configDir, "config.yaml"), null);
  const own =
    project && project.kind !== "none"
      ? await readConfig(join(project.dir, ".rnix", "config.yaml"), project)
      : null;
  if (own !== null) return merged(user, own, trust);
  const settings = withoutProject.get(user ?? DEFAULTS) ?? merged(user, null, trust);
  withoutProject.set(user ?? DEFAULTS, settings);
  return settings;
}

/** By the user's file: without a file of the project, all runs have the same settings. */
const withoutProject = new WeakMap<ConfigFile | Values, Settings>();

function merged(user: ConfigFile | null, own: ConfigFile | null, trust: SettingsSources["trust"]): Settings {
  const yours = user ? withFile(DEFAULTS, user) : DEFAULTS;
  const yourRules = user ? alwaysRules(user) : [];
  const asked = own === null ? [] : [...askedKeys(own, yours), ...askedRules(own, yourRules)];
  const withheld = asked.filter((request) => trust?.allows(request) !== true);
  const refused = new Set(withheld.flatMap(({ parts = {} }) => Object.keys(parts)));
  const values = own ? withFile(yours, own, refused) : yours;
  return {
    values: numbersOf(values),
    words: wordsOf(values),
    allowAlways: [
      ...yourRules,
      ...(own ? alwaysRules(own) : []).filter(({ rule }) => !refused.has(alwaysPart(rule))),
    ],
    own: objectOf(OWN_KEYS.map((key) => [key, user?.value[key]])),
    plugins: mergePlugins(user?.value.plugins, refused.has(CONFIG_PLUGINS) ? undefined : own?.value.plugins),
    withheld: withheld.map(leftOutText),
    asked,
    sources: new Map([...(user ? placesIn(user) : []), ...(own ? placesIn(own, refused) : [])]),
  };
}

/** The defaults alone, for a command that has no file to read. */
export function defaultSettings(): Settings {
  return merged(null, null, undefined);
}

/** The rows of `rnix config`: every setting with its value, default and source. */
export function describeSettings({ values, words, allowAlways, own, sources }: Settings): SettingLine[] {
  const line = (key: Key, value: string, usual: string, { about, scope }: About): SettingLine => {
    return { key, value, default: usual, source: sources.get(key) ?? "default", about, scope };
  };
  const rules = allowAlways.map(({ rule }) => JSON.stringify(rule)).join(", ");
  const about = "rules whose calls no person is asked for, such as Bash(make *)";
  return [
    ...VALUE_KEYS.map((key) => {
      const row = TABLE[key];
      const value = isSetting(key) ? values[key] : (words[key] ?? NONE);
      return line(key, row.shown(value), row.shown(row.default), row);
    }),
    line(ALLOW_ALWAYS, `[${rules}]`, "[]", { about, scope: "run" }),
    ...OWN_KEYS.map((key) => {
      const value = `{${Object.keys(own[key] ?? {}).join(", ")}}`;
      return line(key, value, "{}", { about: OWN_SETTINGS[key].about, scope: "user" });
    }),
  ];
}

/** Whether `limit` is larger than `than`. null is no limit. */
export function isBeyond(limit: Limit | undefined, than: Limit | undefined): boolean {
  if (than === null || than === undefined || limit === undefined) return false;
  return limit === null || limit > than;
}

/** The key of config.yaml below which plugins have their settings. */
const CONFIG_PLUGINS = "plugins";

/** The key of config.yaml with the rules whose calls no person is asked for. */
export const ALLOW_ALWAYS = "allow_always";
/** Maximum rules of one file. */
export const MAX_ALWAYS = 500;

const Rules = z.lazy(() =>
  list(
    "rules",
    z
      .string()
      .max(1_000)
      .regex(
        /^(?:\*|\/\S+|[A-Za-z_*][\w.:*-]*(?:\(.*\S.*\))?)$/s,
        "expected a rule such as Read or Bash(git *)",
      ),
  ).max(MAX_ALWAYS),
);

const Plugins = z.lazy(() =>
  z.record(z.string(), z.record(z.string(), z.unknown()), {
    error: "expected a mapping of plugin names to their settings",
  }),
);

/** The row of this file in the table of what a project may set. */
const FILE = ".rnix/config.yaml";

/** A mode, or `chat`: the mode `outside` where a person types, and `off` for `rnix spawn`. */
const ASK_SETTINGS = [...ASK_MODES, "chat"] as const;
type AskSetting = (typeof ASK_SETTINGS)[number];

/** The modes of runs that a person at a terminal starts: of conversations and `rnix "…"`, and of `rnix spawn`. */
export function modesOf(setting: AskSetting): { byHand: AskMode; spawned: AskMode } {
  return setting === "chat" ? { byHand: "outside", spawned: "off" } : { byHand: setting, spawned: setting };
}

/** The options whose setting is a word, or a list. */
type WordOption = NameWith<{ words: object }>;

interface WordValues extends Record<WordOption, string> {
  /** The mode of the runs that a person at a terminal starts. */
  ask: AskSetting;
  /** What is notified when a suspended run waits for a person's answer: a command or an address. null: nothing. */
  on_ask: string | null;
  /** Names with commas. null: none. */
  plugins_outside: string | null;
}

type WordKey = keyof WordValues;

/** How `null` is written. */
const NONE = "none";

/** A number, null for no limit, or a word. */
type Value = Limit | string;
type ValueKey = SettingKey | WordKey;

/** What is known of a key with one value. */
interface ValueRow extends About {
  schema(): z.ZodType<Value>;
  default: Value;
  shown(value: Value): string;
  /** Whether a project's value allows more than the user's. Absent: each does. */
  widens?(value: Value, yours: Value): boolean;
}

const WORD_OPTIONS = OPTION_NAMES.filter((name): name is WordOption => optionOf(name).words !== undefined);

/** In the order of `rnix config`. */
const TABLE: Readonly<Record<ValueKey, ValueRow>> = {
  ...objectOf<Record<SettingKey, ValueRow>>(
    Object.entries(SETTINGS).map(([key, one]) => [key, numberRow(one)]),
  ),
  ask: {
    ...wordRow(
      "chat",
      `the mode of runs that you start at a terminal: ${ASK_MODES.toReversed().join(", ")}; chat: outside in conversations and rnix "…", off for rnix spawn`,
      () => choice(ASK_SETTINGS),
    ),
    widens: (value, yours) => asksLess(askSetting(value), askSetting(yours)),
  },
  on_ask: wordRow(
    NONE,
    "a command or an https address that is notified when a suspended run waits for an answer",
    () => commandLine("a command or an address, or none"),
  ),
  plugins_outside: wordRow(NONE, "plugins from disk that run outside of their sandbox; *: all of them", () =>
    words("a plugin's name, or none"),
  ),
  ...objectOf<Record<WordOption, ValueRow>>(WORD_OPTIONS.map((name) => [name, optionRow(name)])),
};

const VALUE_KEYS = Object.keys(TABLE).filter((key): key is ValueKey => Object.hasOwn(TABLE, key));
const DEFAULTS = objectOf<Values>(VALUE_KEYS.map((key) => [key, TABLE[key].default]));

function numberRow(setting: Setting): ValueRow {
  const { about, scope } = setting;
  return {
    about,
    scope,
    default: setting.default,
    schema: () => limit(setting),
    shown: (value) => (typeof value === "string" ? value : formatLimit(value, setting)),
    widens: (value, yours) =>
      typeof value !== "string" && typeof yours !== "string" && isBeyond(value, yours),
  };
}

function wordRow(usual: string, about: string, schema: () => z.ZodType<string>): ValueRow {
  return { about, scope: "run", default: usual, schema, shown: (value) => value?.toString() ?? NONE };
}

function optionRow(name: WordOption): ValueRow {
  const { words: setting, choices, hint = "TEXT" } = optionOf(name);
  const allowed = setting?.choices ?? choices;
  return wordRow(setting?.default ?? NONE, setting?.about ?? "", () =>
    allowed ? choice(allowed) : words(hint),
  );
}

/** A list is a word with commas. */
function words(hint: string): z.ZodType<string> {
  return z.union([text(hint), texts().transform((items) => items.join(","))]);
}

type Shape = { [K in ValueKey]: z.ZodOptional<z.ZodType<Value>> } & {
  [K in OwnKey]: z.ZodOptional<(typeof OWN_SETTINGS)[K]["schema"]>;
};

export const ConfigFile = z.lazy(() =>
  strict({
    ...objectOf<Pick<Shape, ValueKey>>(VALUE_KEYS.map((key) => [key, TABLE[key].schema().optional()])),
    [ALLOW_ALWAYS]: Rules.optional(),
    plugins: Plugins.optional(),
    ...objectOf<Pick<Shape, OwnKey>>(OWN_KEYS.map((key) => [key, OWN_SETTINGS[key].schema.optional()])),
  }),
);

type ConfigFile = Checked<typeof ConfigFile>;
type Values = Record<ValueKey, Value>;
type Key = ValueKey | typeof ALLOW_ALWAYS | OwnKey;

const files = new WeakMap<YamlText, ConfigFile>();

/** `project`: whose file it is; null for the user's. */
async function readConfig(file: string, project: Project | null): Promise<ConfigFile | null> {
  if (project) refuseEscape(file, project);
  const read = await readYaml(ConfigFile, file, files);
  const keys = project && read ? Object.keys(read.value) : [];
  const misplaced = keys.find((key) => classOf(FILE, key) === "yours alone");
  if (read && misplaced !== undefined) {
    const own = OWN_KEYS.find((key) => key === misplaced);
    const because = own ? OWN_SETTINGS[own].why : "one daemon serves all projects";
    const message = `"${misplaced}" belongs into ~/.config/rnix/config.yaml: ${because}`;
    throw yamlError(read.text, [misplaced], message, "key");
  }
  return read;
}

/** The keys with one value in this file, without the refused ones. */
function givenIn({ value }: ConfigFile, refused: ReadonlySet<string> = new Set()): ValueKey[] {
  return VALUE_KEYS.filter((key) => value[key] !== undefined && !refused.has(key));
}

/** The values under those of a file. */
function withFile(values: Values, file: ConfigFile, refused?: ReadonlySet<string>): Values {
  const given = givenIn(file, refused).map((key) => [key, file.value[key]] as const);
  return { ...values, ...objectOf<Partial<Values>>(given) };
}

/** File, line and column of each setting of a file that counts. */
function placesIn(file: ConfigFile, refused: ReadonlySet<string> = new Set()): [Key, string][] {
  const { value, text } = file;
  const rules = value.allow_always ?? [];
  const isRefused = rules.length > 0 && rules.every((rule) => refused.has(alwaysPart(rule)));
  const keys: Key[] = [
    ...givenIn(file, refused),
    ...(value.allow_always === undefined || isRefused ? [] : ([ALLOW_ALWAYS] as const)),
    ...OWN_KEYS.filter((key) => value[key] !== undefined),
  ];
  return keys.map((key) => [key, placeIn(text, [key], "key")]);
}

/** What of a project's file needs trust, except its rules. */
function askedKeys(own: ConfigFile, yours: Values): TrustRequest[] {
  const { value, text } = own;
  const asked = (key: string, part: unknown, what: string): TrustRequest => ({
    kind: "config",
    name: key,
    what,
    file: text.file,
    parts: { [key]: part },
  });
  const values = givenIn(own).flatMap((key) => {
    const given = value[key] ?? null;
    const { shown, widens } = TABLE[key];
    if (!asksTrust(FILE, key, widens?.(given, yours[key]))) return [];
    return [asked(key, given, `${key}: ${shown(given)} (yours: ${shown(yours[key])})`)];
  });
  if (value.plugins === undefined) return values;
  const what = `settings of the plugins ${Object.keys(value.plugins).join(", ")}`;
  return [...values, asked(CONFIG_PLUGINS, value.plugins, what)];
}

function alwaysRules({ value: { allow_always = [] }, text }: ConfigFile): AlwaysRule[] {
  return allow_always.map((rule, i) => ({ rule, source: placeIn(text, [ALLOW_ALWAYS, i]) }));
}

/** Each rule of a project is trusted by itself; one that the user has as well needs no trust. */
function askedRules(own: ConfigFile, yours: readonly AlwaysRule[]): TrustRequest[] {
  return alwaysRules(own)
    .filter(({ rule }) => !yours.some((one) => one.rule === rule))
    .map(({ rule }) => ({
      kind: "always",
      name: rule,
      what: `${ALLOW_ALWAYS}: ${rule}`,
      file: own.text.file,
      parts: { [alwaysPart(rule)]: rule },
    }));
}

function mergePlugins(
  user: z.infer<typeof Plugins> = {},
  project: z.infer<typeof Plugins> = {},
): Record<string, Record<string, unknown>> {
  const names = [...Object.keys(user), ...Object.keys(project)];
  return Object.fromEntries(names.map((name) => [name, { ...user[name], ...project[name] }]));
}

/** The numbers: `limit` has read each, and null only where there may be none. */
function numbersOf(values: Values): SettingValues {
  const numbers = Object.entries(values).filter(([key]) => isSetting(key));
  return shared.of(objectOf(numbers));
}

/** Each run holds them. */
const shared = new LastEqual<SettingValues>();

function wordsOf(values: Values): WordValues {
  const orNull = (value: Value): string | null => (value === NONE ? null : String(value));
  return {
    ...objectOf<Record<WordOption, string>>(WORD_OPTIONS.map((name) => [name, values[name]])),
    ask: askSetting(values.ask),
    on_ask: orNull(values.on_ask),
    plugins_outside: orNull(values.plugins_outside),
  };
}

function askSetting(value: Value): AskSetting {
  return ASK_SETTINGS.find((one) => one === value) ?? "chat";
}

function asksLess(theirs: AskSetting, yours: AskSetting): boolean {
  const [given, own] = [modesOf(theirs), modesOf(yours)];
  return isStricter(own.byHand, given.byHand) || isStricter(own.spawned, given.spawned);
}
