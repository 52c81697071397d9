/** The table of all settings: name, scope, unit, default and description. The types of their values follow from it. */

import { keyOf, namesWith, OPTION_SETTINGS } from "./option-list.ts";
import { run, type Setting, user } from "./setting.ts";

const S = 1000;
const MIN = 60 * S;
const DAY = 24 * 60 * MIN;
const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

/** A setting's key in config.yaml, `rnix config` and the code. Settings of run options are flags, too; a flag counts first. */
export const SETTINGS = {
  ...OPTION_SETTINGS,
  tokens_per_day: run("count", null, "tokens of all runs of a project from midnight on, then exit 2"),
  cost_per_day: run("dollars", null, "cost of all runs of a project from midnight on, then exit 2"),
  agent_jobs_tokens_per_day: run(
    "count",
    1_000_000,
    "tokens of all jobs that runs made in a project, from midnight on",
    { unlimited: true },
  ),
  model_timeout: run("duration", 10 * MIN, "one model call, without waits between retries"),
  model_idle_timeout: run("duration", 2 * MIN, "silence within a model call"),
  model_retry_time: run("duration", 5 * MIN, "how long a failed model call is retried", { none: true }),
  model_retries: run("count", null, "retries of a model call within that time", { none: true, max: 100 }),
  model_wait: run("duration", 2 * MIN, "a longer wait that a provider asks for suspends the run until then"),
  tool_timeout: run("duration", 2 * MIN, "one tool call"),
  tool_result_chars: run("count", 30_000, "characters of a tool result shown to the model", {
    min: 1000,
    max: 1_000_000,
  }),
  context_window: run(
    "count",
    128_000,
    "tokens that a model takes, unless providers.yaml has them; by default those of a known model",
    { min: 1000 },
  ),
  compact_at: run("count", 80, "percent of the window from which a conversation is compacted", {
    min: 10,
    max: 100,
  }),
  compact_timeout: run("duration", 2 * MIN, "the model's summary; without one it is compacted all the same"),
  tools_shown: run("count", 40, "tools shown in full; MCP tools beyond are loaded with ToolSearch"),
  chat_max_steps: run("count", 1000, "steps of a chat, of all its turns", { unlimited: true }),
  chat_timeout: run(
    "duration",
    24 * 60 * MIN,
    "time in which a chat works, of all its turns; waiting does not count",
    { unlimited: true },
  ),
  workflow_max_steps: run(
    "count",
    10_000,
    "steps of a workflow, a graph or a shell script, with all its agents",
    { unlimited: true },
  ),
  workflow_timeout: run("duration", 24 * 60 * MIN, "time in which one works", { unlimited: true }),
  chat_idle: run(
    "duration",
    10 * MIN,
    "how long a chat without a client waits for a message, then it is suspended",
  ),
  check_timeout: run("duration", 10 * MIN, "one check at the end of a run"),
  spawn_depth: run("count", 5, "processes below processes", { none: true, max: 100 }),
  live_children: run("count", 16, "processes below one run at the same time", { none: true, max: 10_000 }),
  live_units: run("count", 16, "background units of one process at the same time", { none: true, max: 1000 }),
  live_processes: user("count", 10_000, "processes of the daemon at the same time, of all projects", {
    unlimited: true,
  }),
  program_processes: run("count", 1000, "processes of the programs of one process at the same time", {
    min: 10,
    max: 1_000_000,
  }),
  program_memory: run(
    "count",
    50,
    "memory of the programs of one process together, in percent of the machine's",
    { max: 100 },
  ),
  program_files: run("count", 16_384, "files that one program may have open", { min: 64, max: 1_000_000 }),
  program_cpu: run("duration", 100 * 60 * MIN, "processor time of one program, of all its threads together", {
    unlimited: true,
  }),
  program_file_size: run("size", 16 * GIB, "largest file that a program may write", {
    min: MIB,
    max: 1024 * 1024 * GIB,
    unlimited: true,
  }),
  shell_memory: run("size", 64 * KIB, "a command's output kept in memory", { min: KIB, max: 16 * MIB }),
  shell_disk: run("size", 16 * MIB, "a command's output kept on disk", { min: KIB, max: 1024 * MIB }),
  loop_threshold: run("count", 25, "identical action, input and result in a row, then loop_detected", {
    min: 2,
  }),
  events_per_run: run("count", 100_000, "syscall events kept on disk of one run", {
    max: 10_000_000,
    smaller: "is not safer",
  }),
  results_per_run: run("size", 256 * MIB, "large results kept whole beside one run", {
    min: KIB,
    smaller: "is not safer",
  }),
  undo_per_run: run(
    "size",
    256 * MIB,
    "contents of changed files kept beside one run, for rnix diff and rnix undo",
    { min: KIB, smaller: "is not safer" },
  ),
  undo_file_size: run("size", 16 * MIB, "a changed file larger than this is named, and can't be taken back", {
    min: KIB,
    max: 128 * MIB,
    smaller: "is not safer",
  }),
  grace: run("duration", 10 * S, "between TERM and KILL", { max: 10 * MIN }),
  drain: user("duration", 10 * S, "how long daemon stop and restart let tool calls under way finish", {
    none: true,
    max: 10 * MIN,
  }),
  retention_age: user("age", 90 * DAY, "ended runs older than this are collected", { unlimited: true }),
  retention_runs: user("count", 10_000, "ended runs kept of each project; the oldest go first", {
    unlimited: true,
  }),
  retention_size: user("size", 4 * GIB, "disk that the ended runs of each project may take", {
    unlimited: true,
  }),
  retention_every: user("duration", 6 * 60 * MIN, "how often the daemon collects by itself", {
    unlimited: true,
  }),
  daemon_idle_stop: user("duration", 60 * S, "the daemon stops after this time without work or clients", {
    unlimited: true,
  }),
  daemon_idle_check: user("duration", 5 * S, "how often it looks whether it is idle"),
  socket_wait: user("duration", 3 * S, "how long a command waits for a daemon it has started", { max: MIN }),
  stdin_wait: user(
    "duration",
    10 * S,
    "how long spawn and resume wait for the first byte of a pipe on stdin",
    { min: 1 * S, unlimited: true },
  ),
  bell: user(
    "duration",
    0,
    "a run or a turn longer than this rings the terminal's bell when it ends or asks",
    { none: true },
  ),
  desktop_notice: user(
    "duration",
    0,
    "a run or a turn longer than this sends a desktop notification when it ends or asks",
    { none: true },
  ),
  socket_retry: user("duration", 100, "how often it tries meanwhile", { max: MIN }),
  // `npx -y` downloads a server first.
  mcp_mount_timeout: run("duration", 60 * S, "starting an MCP server", { max: 30 * MIN }),
  mcp_wait: run(
    "duration",
    5 * S,
    "how long the first step waits for an optional MCP server where the model has no ToolSearch",
    { none: true },
  ),
  mcp_request_timeout: run("duration", 60 * S, "one request to an MCP server"),
  question_timeout: run(
    "duration",
    5 * MIN,
    "how long a question waits for a person who is there, outside a conversation; then on-ask decides",
  ),
  question_parked: run(
    "age",
    7 * DAY,
    "how long a suspended run waits for an answer; then its default counts",
  ),
  wake_wait: run("age", 7 * DAY, "the longest wait that a run may ask for with the tool Wake"),
  supervisor_restarts: run("count", 3, "restarts of a supervisor's children within its window", {
    none: true,
    max: 1000,
  }),
  supervisor_window: run("duration", 60 * S, "the supervisor's window", { smaller: "is not safer" }),
  cron_grace: run(
    "duration",
    MIN,
    "how late a scheduled run is still on time; as it is when the job is made",
  ),
} as const satisfies Record<string, Setting>;

type Table = typeof SETTINGS;
export type SettingKey = keyof Table;
type KeyWith<Property> = { [K in SettingKey]: Table[K] extends Property ? K : never }[SettingKey];

export function isSetting<Key extends string>(key: Key): key is Key & SettingKey {
  return Object.hasOwn(SETTINGS, key);
}

/** The keys of an agent that are settings, too. */
export const AGENT_SETTINGS = namesWith({ agent: true })
  .map((name) => keyOf(name))
  .filter(isSetting);

/** The value of every setting by its name. Durations are in milliseconds, sizes in bytes. */
export type SettingValues = {
  readonly [K in SettingKey]: Table[K] extends { unlimited: true } ? number | null : number;
};

/** The values of the settings with the scope `run`, which a project's file may set. */
export type RunSettings = Pick<SettingValues, KeyWith<{ scope: "run" }>>;
