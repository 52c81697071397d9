/** The settings of one command: the defaults, under the user's config.yaml, under the project's. */

import { join } from "node:path";
import { z } from "zod";
import { ASK_MODES, type AskMode, isStricter } from "../../lib/ask-modes.ts";
import type { Limit } from "../../options/definitions.ts";
import { OPTION_NAMES, objectOf, optionOf } from "../../options/option-list.ts";
import type { NameWith } from "../../options/option-types.ts";
import type { RunOption } from "../../options/run-option.ts";
import type { Setting } from "../../options/setting.ts";
import { isSetting, SETTINGS, type SettingKey, type SettingValues } from "../../options/settings.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type ConfigSources, refuseEscape } from "../config-sources.ts";
import { choice, commandLine, formatLimit, limit, list, strict, text, texts } from "../files/values.ts";
import { type Checked, readYaml, yamlError } from "../files/yaml.ts";
import type { Project } from "../project/project.ts";
import { asksTrust, classOf } from "../trust/project-keys.ts";
import { alwaysPart, leftOutText, type TrustRequest } from "../trust/trust.ts";
import { OWN_KEYS, OWN_SETTINGS, type OwnKey, OwnSettings } from "./own-settings.ts";

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

/** Without a project, or with one of kind "none", only the user's file counts. */
type SettingsSources = Pick<ConfigSources, "configDir"> & Partial<Pick<ConfigSources, "project" | "trust">>;

/**
 * Reads both files. INVALID names file, line and column. A project's limit counts without trust where it is smaller
 * than the user's. A larger one needs trust, and so does `plugins`, which may move a key or run code.
 */
export async function loadSettings(configSources: SettingsSources): Promise<Settings> {
  const { project, trust } = configSources;
  const user = await readConfig(join(configSources.configDir, "config.yaml"), null);
  const own =
    project && project.kind !== "none"
      ? await readConfig(join(project.dir, ".rnix", "config.yaml"), project)
      : null;
  const values = defaultValues();
  const sources = new Map<Key, string>();
  if (user) apply(values, sources, user);
  const yours = withWords(WORD_DEFAULTS, user?.value.words ?? {});
  const yourRules = user ? alwaysRules(user) : [];
  const asked = own === null ? [] : [...askedSettings(own, values, yours), ...askedRules(own, yourRules)];
  const withheld = asked.filter((request) => trust?.allows(request) !== true);
  const refused = new Set(withheld.flatMap(({ parts = {} }) => Object.keys(parts)));
  if (own) apply(values, sources, own, refused);
  return {
    values: checked(values),
    words: own ? withWords(yours, own.value.words, refused) : yours,
    allowAlways: [
      ...yourRules,
      ...(own ? alwaysRules(own) : []).filter(({ rule }) => !refused.has(alwaysPart(rule))),
    ],
    own: user?.value.own ?? {},
    plugins: mergePlugins(user?.value.plugins, refused.has(CONFIG_PLUGINS) ? undefined : own?.value.plugins),
    withheld: withheld.map(leftOutText),
    asked,
    sources,
  };
}

/** The defaults alone, for a command that has no file to read. */
export function defaultSettings(): Settings {
  const values = checked(defaultValues());
  return {
    values,
    words: WORD_DEFAULTS,
    allowAlways: [],
    plugins: {},
    own: {},
    withheld: [],
    asked: [],
    sources: new Map(),
  };
}

/** The rows of `rnix config`: every setting with its value, default and source. */
export function describeSettings({ values, words, allowAlways, own, sources }: Settings): SettingLine[] {
  const ofWords = WORD_KEYS.map((key): SettingLine => {
    const [value, usual] = [shownWord(words[key]), shownWord(WORD_DEFAULTS[key])];
    const source = sources.get(key) ?? "default";
    return { key, value, default: usual, source, about: WORD_ABOUTS[key], scope: "run" };
  });
  const ofLimits = KEYS.map((key): SettingLine => {
    const setting: Setting = SETTINGS[key];
    return {
      key,
      value: formatLimit(values[key], setting),
      default: formatLimit(setting.default, setting),
      source: sources.get(key) ?? "default",
      about: setting.about,
      scope: setting.scope,
    };
  });
  const always: SettingLine = {
    key: ALLOW_ALWAYS,
    value: `[${allowAlways.map(({ rule }) => JSON.stringify(rule)).join(", ")}]`,
    default: "[]",
    source: sources.get(ALLOW_ALWAYS) ?? "default",
    about: "rules whose calls no person is asked for, such as Bash(make *)",
    scope: "run",
  };
  const ofOwn = OWN_KEYS.map((key): SettingLine => {
    const value = `{${Object.keys(own[key] ?? {}).join(", ")}}`;
    const source = sources.get(key) ?? "default";
    return { key, value, default: "{}", source, about: OWN_SETTINGS[key].about, scope: "user" };
  });
  return [...ofLimits, ...ofWords, always, ...ofOwn];
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
const KEYS = Object.keys(SETTINGS).filter(isSetting);

export const ConfigFile = z.lazy(() =>
  strict({
    ...Object.fromEntries(KEYS.map((key) => [key, limit(SETTINGS[key]).optional()])),
    ...wordSchema(),
    [ALLOW_ALWAYS]: Rules.optional(),
    plugins: Plugins.optional(),
    ...Object.fromEntries(OWN_KEYS.map((key) => [key, OWN_SETTINGS[key].schema.optional()])),
  }).transform(({ plugins, allow_always, ...others }) => ({
    own: OwnSettings.parse(others),
    allow_always: Rules.optional().parse(allow_always),
    plugins: Plugins.optional().parse(plugins),
    words: WordFile.parse(others),
    numbers: Object.entries(others).flatMap(([key, value]) =>
      isSetting(key) && (value === null || typeof value === "number") ? [{ key, value }] : [],
    ),
  })),
);

type ConfigFile = Checked<typeof ConfigFile>;
type Values = Map<SettingKey, Limit>;
type Key = SettingKey | WordKey | typeof ALLOW_ALWAYS | OwnKey;

/** `project`: whose file it is; null for the user's. */
async function readConfig(file: string, project: Project | null): Promise<ConfigFile | null> {
  if (project) refuseEscape(file, project);
  const read = await readYaml(ConfigFile, file);
  const owned = OWN_KEYS.filter((key) => read?.value.own[key] !== undefined);
  const keys = [...(read?.value.numbers.map(({ key }) => key) ?? []), ...owned];
  const misplaced = project && keys.find((key) => classOf(FILE, key) === "yours alone");
  if (read && misplaced) {
    const why = owned.find((key) => key === misplaced);
    const because = why ? OWN_SETTINGS[why].why : "one daemon serves all projects";
    const message = `"${misplaced}" belongs into ~/.config/rnix/config.yaml: ${because}`;
    throw yamlError(read.text, [misplaced], message, "key");
  }
  return read;
}

/** Overwrites `values` with the numbers of this file, except the `refused` keys. */
function apply(
  values: Values,
  sources: Map<Key, string>,
  { value, text }: ConfigFile,
  refused: ReadonlySet<string> = new Set(),
): void {
  const note = (key: Key): void => {
    const { line, column } = text.position([key], "key");
    sources.set(key, `${text.file}:${line}:${column}`);
  };
  for (const { key, value: number } of value.numbers) {
    if (refused.has(key)) continue;
    values.set(key, number);
    note(key);
  }
  for (const key of OWN_KEYS) if (value.own[key] !== undefined) note(key);
  const rules = value.allow_always;
  if (rules && !(rules.length > 0 && rules.every((rule) => refused.has(alwaysPart(rule)))))
    note(ALLOW_ALWAYS);
  for (const key of WORD_KEYS) if (value.words[key] !== undefined && !refused.has(key)) note(key);
}

/** `yours`: the user's own values. */
function askedSettings(
  { value, text: { file } }: ConfigFile,
  yours: Values,
  words: WordValues,
): TrustRequest[] {
  const numbers = value.numbers
    .filter(({ key, value: number }) => asksTrust(FILE, key, isBeyond(number, yours.get(key))))
    .map(({ key, value: number }) => {
      const yourText = formatLimit(yours.get(key) ?? null, SETTINGS[key]);
      return askedKey(
        file,
        key,
        number,
        `${key}: ${formatLimit(number, SETTINGS[key])} (yours: ${yourText})`,
      );
    });
  const ofWords = askedWords(value.words, words).map(({ key, value, says }) =>
    askedKey(file, key, value, says),
  );
  const all = [...numbers, ...ofWords];
  if (value.plugins === undefined) return all;
  const what = `settings of the plugins ${Object.keys(value.plugins).join(", ")}`;
  return [...all, askedKey(file, CONFIG_PLUGINS, value.plugins, what)];
}

function askedKey(file: string, key: string, value: unknown, what: string): TrustRequest {
  return { kind: "config", name: key, what, file, parts: { [key]: value } };
}

function alwaysRules({ value: { allow_always = [] }, text }: ConfigFile): AlwaysRule[] {
  return allow_always.map((rule, i) => {
    const { line, column } = text.position([ALLOW_ALWAYS, i]);
    return { rule, source: `${text.file}:${line}:${column}` };
  });
}

/** Each rule of a project is trusted by itself; one that the user has as well needs no trust. */
function askedRules(own: ConfigFile, yours: readonly AlwaysRule[]): TrustRequest[] {
  return alwaysRules(own)
    .filter(({ rule }) => !yours.some((one) => one.rule === rule))
    .map(({ rule }) => ({
      ...{ kind: "always", name: rule, what: `${ALLOW_ALWAYS}: ${rule}` },
      ...{ file: own.text.file, parts: { [alwaysPart(rule)]: rule } },
    }));
}

function mergePlugins(
  user: z.infer<typeof Plugins> = {},
  project: z.infer<typeof Plugins> = {},
): Record<string, Record<string, unknown>> {
  const names = [...Object.keys(user), ...Object.keys(project)];
  return Object.fromEntries(names.map((name) => [name, { ...user[name], ...project[name] }]));
}

function defaultValues(): Values {
  return new Map(KEYS.map((key) => [key, SETTINGS[key].default]));
}

/** INTERNAL where a setting that needs a limit has none. */
function checked(values: Values): SettingValues {
  const all = Object.fromEntries(values);
  if (!areSettings(all)) throw new SyscallError("INTERNAL", "A setting was read as unlimited.");
  return all;
}

function areSettings(values: Record<string, Limit>): values is SettingValues {
  return KEYS.every((key) => typeof values[key] === "number" || allowsUnlimited(SETTINGS[key]));
}

function allowsUnlimited({ unlimited }: Setting): boolean {
  return unlimited === true;
}

/** A mode, or `chat`: the mode `outside` where a person types, and `off` for `rnix spawn`. */
const ASK_SETTINGS = [...ASK_MODES, "chat"] as const;
type AskSetting = (typeof ASK_SETTINGS)[number];

/** The modes of runs that a person at a terminal starts: of conversations and `rnix "…"`, and of `rnix spawn`. */
export function modesOf(setting: AskSetting): { byHand: AskMode; spawned: AskMode } {
  return setting === "chat" ? { byHand: "outside", spawned: "off" } : { byHand: setting, spawned: setting };
}

/** The options whose setting is a word, or a list. */
type WordOption = NameWith<{ words: object }>;

const WORD_OPTIONS = OPTION_NAMES.filter((name): name is WordOption => optionOf(name).words !== undefined);

interface WordValues extends Record<WordOption, string> {
  /** The mode of the runs that a person at a terminal starts. */
  ask: AskSetting;
  /** What is notified when a suspended run waits for a person's answer: a command or an address. null: nothing. */
  on_ask: string | null;
  /** Names with commas. null: none. */
  plugins_outside: string | null;
}

type WordKey = keyof WordValues;

const WORD_DEFAULTS: WordValues = {
  ask: "chat",
  on_ask: null,
  plugins_outside: null,
  ...ofOptions("default"),
};

/** How `null` is written. */
const NONE = "none";

const WORD_ABOUTS: Record<WordKey, string> = {
  ask: `the mode of runs that you start at a terminal: ${ASK_MODES.toReversed().join(", ")}; chat: outside in conversations and rnix "…", off for rnix spawn`,
  on_ask: "a command or an https address that is notified when a suspended run waits for an answer",
  plugins_outside: "plugins from disk that run outside of their sandbox; *: all of them",
  ...ofOptions("about"),
};

const WORD_KEYS: readonly WordKey[] = ["ask", "on_ask", "plugins_outside", ...WORD_OPTIONS];

/** The keys of config.yaml. */
const wordSchema = () => ({
  ask: choice(ASK_SETTINGS).optional(),
  on_ask: commandLine("a command or an address, or none").optional(),
  plugins_outside: z.union([text("a plugin's name, or none"), texts()]).optional(),
  ...Object.fromEntries(WORD_OPTIONS.map((name) => [name, optionSchema(optionOf(name)).optional()])),
});

function optionSchema({ words, hint = "TEXT", ...option }: RunOption) {
  const choices = words?.choices ?? option.choices;
  return choices ? choice(choices) : z.union([text(hint), texts()]);
}

function ofOptions(property: "default" | "about"): Record<WordOption, string> {
  return objectOf(WORD_OPTIONS.map((name) => [name, optionOf(name).words?.[property]] as const));
}

type WordFile = Partial<Record<WordKey, string>>;

/** The values of one file, after its schema. */
const WordFile = z.lazy(() =>
  z.object(objectOf<Record<WordKey, typeof Word>>(WORD_KEYS.map((key) => [key, Word]))),
);

/** A list is a word with commas. */
const Word = z.union([z.string(), z.array(z.string()).transform((items) => items.join(","))]).optional();

/** The values under those of a file. */
function withWords(values: WordValues, file: WordFile, refused: ReadonlySet<string> = new Set()): WordValues {
  const made = { ...values };
  const ask = ASK_SETTINGS.find((one) => one === file.ask);
  if (ask !== undefined && !refused.has("ask")) made.ask = ask;
  for (const key of ["on_ask", "plugins_outside"] as const) {
    const value = refused.has(key) ? undefined : file[key];
    if (value !== undefined) made[key] = value === NONE ? null : value;
  }
  for (const name of WORD_OPTIONS) made[name] = (refused.has(name) ? undefined : file[name]) ?? made[name];
  return made;
}

/** The keys of a project's file that need trust: where notifications go, and fewer questions than the user wants. */
function askedWords(file: WordFile, yours: WordValues): { key: WordKey; value: string; says: string }[] {
  return WORD_KEYS.flatMap((key) => {
    const value = file[key];
    if (value === undefined) return [];
    const isLaxer = key === "ask" && asksLess(value, yours.ask);
    if (!asksTrust(".rnix/config.yaml", key, isLaxer)) return [];
    return [{ key, value, says: `${key}: ${value} (yours: ${shownWord(yours[key])})` }];
  });
}

function shownWord(value: string | null): string {
  return value ?? NONE;
}

function asksLess(value: string, yours: AskSetting): boolean {
  const theirs = ASK_SETTINGS.find((one) => one === value);
  if (theirs === undefined) return false;
  const [given, own] = [modesOf(theirs), modesOf(yours)];
  return isStricter(own.byHand, given.byHand) || isStricter(own.spawned, given.spawned);
}
