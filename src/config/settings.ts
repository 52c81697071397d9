import { join } from "node:path";
import { z } from "zod";
import type { Limit, Limits } from "../kernel/types.ts";
import { SyscallError } from "../plugin/index.ts";
import { SETTINGS, type Setting, type SettingKey } from "./defaults.ts";
import type { McpNumbers } from "./mcp.ts";
import { type ConfigSources, refuseEscape } from "./places.ts";
import type { Project } from "./project.ts";
import { asksTrust, classOf } from "./project-keys.ts";
import { formatLimit, limit, strict } from "./values.ts";
import { type Checked, readYaml, yamlError } from "./yaml.ts";

export interface Settings {
  limits: Limits;
  server: ServerNumbers;
  supervisors: SupervisorNumbers;
  mcp: McpNumbers;
  retention: RetentionNumbers;
  /** Each plugin's part of config.yaml, by the plugin's name: the project's keys over the user's. */
  plugins: Record<string, Record<string, unknown>>;
  /** What was left out because the project is not trusted, for the user to read. */
  withheld: string[];
  /** What trust is asked for in the project's file, trusted or not. */
  asked: AskedSetting[];
  /** What the files set, and where. */
  values: Values;
}

/** What the long-running process and its clients live by. Milliseconds. */
interface ServerNumbers {
  /** null: it does not stop by itself. */
  idleStopMs: Limit;
  idleCheckMs: number;
  socketWaitMs: number;
  socketRetryMs: number;
  graceMs: number;
  drainMs: number;
  liveProcesses: Limit;
}

/** What is kept of ended runs (`gc`). null: no limit. */
interface RetentionNumbers {
  ageMs: Limit;
  runs: Limit;
  bytes: Limit;
  /** null: never by itself. */
  everyMs: Limit;
}

/** More restarts than this within the window, and a supervisor gives up, unless init.yaml says otherwise. */
interface SupervisorNumbers {
  restarts: number;
  windowMs: number;
}

/** A key of a project's config.yaml that counts once it is trusted. */
interface AskedSetting {
  file: string;
  key: string;
  value: unknown;
  /** For the person who decides. */
  says: string;
}

/** One row of `rnix config`. */
export interface SettingLine {
  key: SettingKey;
  value: string;
  default: string;
  /** "default", or the file with line and column. */
  source: string;
  about: string;
  scope: Setting["scope"];
  works: boolean;
}

/** Without a project, or with one of kind "none", only the user's file counts. */
type SettingsPlaces = Pick<ConfigSources, "configDir"> & Partial<Pick<ConfigSources, "project" | "trust">>;

/**
 * The defaults, under the user's config.yaml, under the project's. INVALID names file, line and column. A project's
 * limit counts as far as it is smaller than the user's; one that is not, and `plugins`, which may move a key or run
 * code, need trust.
 */
export async function loadSettings(places: SettingsPlaces): Promise<Settings> {
  const { project, trust } = places;
  const user = await readConfig(join(places.configDir, "config.yaml"), null);
  const own =
    project && project.kind !== "none"
      ? await readConfig(join(project.dir, ".rnix", "config.yaml"), project)
      : null;
  const values: Values = new Map();
  if (user) for (const { key, value } of user.value.numbers) set(values, user, key, value);
  const asked = own === null ? [] : askedSettings(own, values);
  const withheld = asked.filter(({ file, key, value }) => trust?.allowsPart(file, key, value) !== true);
  const refused = new Set(withheld.map(({ key }) => key));
  if (own) {
    for (const { key, value } of own.value.numbers) if (!refused.has(key)) set(values, own, key, value);
  }
  return {
    ...numbersOf(values),
    plugins: mergePlugins(user?.value.plugins, refused.has(CONFIG_PLUGINS) ? undefined : own?.value.plugins),
    withheld: withheld.map(({ says, file }) => `${says} in ${file}`),
    asked,
    values,
  };
}

/** The defaults alone, for a command that has no file to read. */
export function defaultSettings(): Settings {
  const values: Values = new Map();
  return { ...numbersOf(values), plugins: {}, withheld: [], asked: [], values };
}

/** Every row of the table as it is now: what `rnix config` prints. */
export function describeSettings({ values }: Settings): SettingLine[] {
  return KEYS.map((key) => {
    const setting: Setting = SETTINGS[key];
    return {
      key,
      value: formatLimit(settingOf(values, key), setting),
      default: formatLimit(setting.default, setting),
      source: values.get(key)?.source ?? "default",
      about: setting.about,
      scope: setting.scope,
      works: setting.works,
    };
  });
}

/** Whether a limit goes beyond another one; null is no limit. */
export function isBeyond(limit: Limit | undefined, than: Limit | undefined): boolean {
  if (than === null || than === undefined || limit === undefined) return false;
  return limit === null || limit > than;
}

/** The part of a config.yaml that has the plugins' settings. */
const CONFIG_PLUGINS = "plugins";

const Plugins = z.lazy(() =>
  z.record(z.string(), z.record(z.string(), z.unknown()), {
    error: "expected a mapping of plugin names to their settings",
  }),
);

/** In the table of what a project may say. */
const FILE = ".rnix/config.yaml";
const KEYS = Object.keys(SETTINGS).filter(isKey);
const LATER = KEYS.filter((key) => !SETTINGS[key].works);

export const ConfigFile = z.lazy(() =>
  strict(
    {
      ...Object.fromEntries(
        KEYS.filter((key) => SETTINGS[key].works).map((key) => [key, limit(SETTINGS[key]).optional()]),
      ),
      plugins: Plugins.optional(),
    },
    LATER,
  ).transform(({ plugins, ...numbers }) => ({
    plugins: Plugins.optional().parse(plugins),
    numbers: Object.entries(numbers).flatMap(([key, value]) =>
      isKey(key) && (value === null || typeof value === "number") ? [{ key, value }] : [],
    ),
  })),
);

type ConfigFile = Checked<typeof ConfigFile>;
type Values = Map<SettingKey, { value: number | null; source: string }>;

/** `project`: whose file it is; null for the user's. */
async function readConfig(file: string, project: Project | null): Promise<ConfigFile | null> {
  if (project) refuseEscape(file, project);
  const read = await readYaml(ConfigFile, file);
  const misplaced = project && read?.value.numbers.find(({ key }) => classOf(FILE, key) === "yours alone");
  if (read && misplaced) {
    throw yamlError(
      read.text,
      [misplaced.key],
      `"${misplaced.key}" belongs into ~/.config/rnix/config.yaml: one daemon serves all projects`,
      "key",
    );
  }
  return read;
}

function set(values: Values, { text }: ConfigFile, key: SettingKey, value: number | null): void {
  const { line, column } = text.place([key], "key");
  values.set(key, { value, source: `${text.file}:${line}:${column}` });
}

/** `values`: the user's own so far. */
function askedSettings({ value, text: { file } }: ConfigFile, values: Values): AskedSetting[] {
  const numbers = value.numbers
    .filter(({ key, value: number }) => asksTrust(FILE, key, isBeyond(number, settingOf(values, key))))
    .map(({ key, value: number }) => ({
      file,
      key,
      value: number,
      says: `${key}: ${formatLimit(number, SETTINGS[key])} (yours: ${formatLimit(settingOf(values, key), SETTINGS[key])})`,
    }));
  if (value.plugins === undefined) return numbers;
  const says = `settings of the plugins ${Object.keys(value.plugins).join(", ")}`;
  return [...numbers, { file, key: CONFIG_PLUGINS, value: value.plugins, says }];
}

function mergePlugins(
  user: z.infer<typeof Plugins> = {},
  project: z.infer<typeof Plugins> = {},
): Record<string, Record<string, unknown>> {
  const names = [...Object.keys(user), ...Object.keys(project)];
  return Object.fromEntries(names.map((name) => [name, { ...user[name], ...project[name] }]));
}

function numbersOf(
  values: Values,
): Pick<Settings, "limits" | "server" | "supervisors" | "retention" | "mcp"> {
  return {
    limits: limitsOf(values),
    server: serverNumbers(values),
    supervisors: supervisorNumbers(values),
    retention: retentionNumbers(values),
    mcp: {
      mountMs: numberOf(values, "mcp_mount_timeout"),
      requestMs: numberOf(values, "mcp_request_timeout"),
    },
  };
}

function limitsOf(values: Values): Limits {
  return {
    maxSteps: settingOf(values, "max_steps"),
    timeoutMs: settingOf(values, "timeout"),
    contextBudget: settingOf(values, "context_budget"),
    maxCost: settingOf(values, "max_cost"),
    tokensPerDay: settingOf(values, "tokens_per_day"),
    costPerDay: settingOf(values, "cost_per_day"),
    modelTotalMs: numberOf(values, "model_timeout"),
    modelIdleMs: numberOf(values, "model_idle_timeout"),
    modelRetries: numberOf(values, "model_retries"),
    modelWaitMs: numberOf(values, "model_wait"),
    contextWindow: numberOf(values, "context_window"),
    compactAt: numberOf(values, "compact_at"),
    compactMs: numberOf(values, "compact_timeout"),
    toolMs: numberOf(values, "tool_timeout"),
    graceMs: numberOf(values, "grace"),
    checkMs: numberOf(values, "check_timeout"),
    spawnDepth: numberOf(values, "spawn_depth"),
    liveChildren: numberOf(values, "live_children"),
    loopThreshold: numberOf(values, "loop_threshold"),
    toolResultChars: numberOf(values, "tool_result_chars"),
    shellMemoryBytes: numberOf(values, "shell_memory"),
    shellDiskBytes: numberOf(values, "shell_disk"),
    eventsPerRun: numberOf(values, "events_per_run"),
    resultBytes: numberOf(values, "results_per_run"),
  };
}

function serverNumbers(values: Values): ServerNumbers {
  return {
    idleStopMs: settingOf(values, "daemon_idle_stop"),
    idleCheckMs: numberOf(values, "daemon_idle_check"),
    socketWaitMs: numberOf(values, "socket_wait"),
    socketRetryMs: numberOf(values, "socket_retry"),
    graceMs: numberOf(values, "grace"),
    drainMs: numberOf(values, "drain"),
    liveProcesses: settingOf(values, "live_processes"),
  };
}

function supervisorNumbers(values: Values): SupervisorNumbers {
  return {
    restarts: numberOf(values, "supervisor_restarts"),
    windowMs: numberOf(values, "supervisor_window"),
  };
}

function retentionNumbers(values: Values): RetentionNumbers {
  return {
    ageMs: settingOf(values, "retention_age"),
    runs: settingOf(values, "retention_runs"),
    bytes: settingOf(values, "retention_size"),
    everyMs: settingOf(values, "retention_every"),
  };
}

function settingOf(values: Values, key: SettingKey): number | null {
  const set = values.get(key);
  return set ? set.value : SETTINGS[key].default;
}

/** For a setting that cannot be unlimited. */
function numberOf(values: Values, key: SettingKey): number {
  const value = settingOf(values, key);
  if (value === null) throw new SyscallError("INTERNAL", `The setting ${key} was read as unlimited.`);
  return value;
}

function isKey(key: string): key is SettingKey {
  return Object.hasOwn(SETTINGS, key);
}
