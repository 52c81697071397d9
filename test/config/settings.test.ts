import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { defaultSettings, describeSettings, loadSettings } from "../../src/config/settings/settings.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import { SETTINGS } from "../../src/options/settings.ts";
import { failure, Sandbox } from "./sandbox.ts";

const USER = "home/.config/rnix/config.yaml";
const PROJECT = "home/work/.rnix/config.yaml";

describe("the defaults", () => {
  test("are the documented ones", () => {
    const MIN = 60_000;
    const DAY = 24 * 60 * MIN;
    expect(defaultSettings().values).toEqual({
      max_steps: 100,
      timeout: 60 * MIN,
      context_budget: null,
      max_cost: null,
      tokens_per_day: null,
      agent_jobs_tokens_per_day: 1_000_000,
      cost_per_day: null,
      model_timeout: 10 * MIN,
      model_idle_timeout: 2 * MIN,
      model_retry_time: 300_000,
      model_retries: null,
      model_wait: 120_000,
      context_window: 128_000,
      compact_at: 80,
      compact_timeout: 2 * MIN,
      tool_timeout: 2 * MIN,
      tool_result_chars: 30_000,
      tools_shown: 40,
      grace: 10_000,
      chat_max_steps: 1000,
      chat_timeout: 24 * 60 * MIN,
      workflow_max_steps: 10_000,
      workflow_timeout: 24 * 60 * MIN,
      chat_idle: 10 * MIN,
      check_timeout: 10 * MIN,
      check_attempts: 3,
      spawn_depth: 5,
      live_children: 16,
      live_units: 16,
      program_processes: 1000,
      program_memory: 50,
      program_files: 16_384,
      program_cpu: 360_000_000,
      program_file_size: 16 * 1024 * 1024 * 1024,
      live_processes: 10_000,
      loop_threshold: 25,
      shell_memory: 64 * 1024,
      shell_disk: 16 * 1024 * 1024,
      events_per_run: 100_000,
      results_per_run: 256 * 1024 * 1024,
      undo_per_run: 256 * 1024 * 1024,
      undo_file_size: 16 * 1024 * 1024,
      daemon_idle_stop: 60_000,
      daemon_idle_check: 5000,
      socket_wait: 3000,
      socket_retry: 100,
      stdin_wait: 10_000,
      question_timeout: 5 * MIN,
      question_parked: 7 * DAY,
      wake_wait: 7 * DAY,
      bell: 0,
      desktop_notice: 0,
      drain: 10_000,
      retention_age: 90 * DAY,
      retention_runs: 10_000,
      retention_size: 4 * 1024 ** 3,
      retention_every: DAY / 4,
      mcp_mount_timeout: MIN,
      mcp_wait: 5000,
      mcp_request_timeout: MIN,
      supervisor_restarts: 3,
      supervisor_window: MIN,
      cron_grace: MIN,
    });
  });

  test("are the same as what is loaded where no file is", async () => {
    using box = new Sandbox();
    expect(await loadSettings(box.sources())).toEqual(defaultSettings());
  });

  test("lie within their own bounds and can be written into a file as they are shown", async () => {
    using box = new Sandbox();
    const lines = describeSettings(defaultSettings());
    box.write(USER, lines.map(({ key, value }) => `${key}: ${value}`).join("\n"));
    const loaded = await loadSettings(box.sources());
    expect(loaded.values).toEqual(defaultSettings().values);
    expect(loaded.sources.size).toBe(lines.length);
  });
});

describe("config.yaml", () => {
  test("of a trusted project counts before the user's, and each value knows where it is from", async () => {
    using box = new Sandbox();
    const user = box.write(USER, "max_steps: 7\ntimeout: 5m\n");
    const project = box.write(PROJECT, "# ours\nmax_steps: unlimited\n  \nshell_disk: 1MiB\n");
    const settings = await loadSettings(box.trusted());
    expect(settings.values).toMatchObject({ max_steps: null, timeout: 300_000, shell_disk: 1_048_576 });
    const source = new Map(describeSettings(settings).map((line) => [line.key, line.source]));
    expect(source.get("max_steps")).toBe(`${project}:2:1`);
    expect(source.get("timeout")).toBe(`${user}:2:1`);
    expect(source.get("grace")).toBe("default");
  });

  test("takes effect as soon as it changes, and is forgotten when it is removed", async () => {
    using box = new Sandbox();
    const steps = async () => (await loadSettings(box.sources())).values.max_steps;
    box.write(USER, "max_steps: 7\n");
    expect(await steps()).toBe(7);
    box.write(USER, "max_steps: 8\n");
    expect(await steps()).toBe(8);
    await Bun.file(join(box.dir, USER)).delete();
    expect(await steps()).toBe(100);
  });

  test("of a folder that is no project is not read", async () => {
    using box = new Sandbox();
    box.write("home/.rnix/config.yaml", "max_steps: 3\n");
    expect((await loadSettings(box.sources(box.project(box.home)))).values.max_steps).toBe(100);
  });

  test("sets ages longer than a timer can wait, and no limit where the table allows it", async () => {
    using box = new Sandbox();
    box.write(USER, "retention_age: 400d\nretention_runs: unlimited\nretention_size: 1GiB\n");
    expect((await loadSettings(box.sources())).values).toMatchObject({
      retention_age: 400 * 86_400_000,
      retention_runs: null,
      retention_size: 1024 ** 3,
    });
    box.write(USER, "retention_age: 40000d\n");
    expect((await failure(() => loadSettings(box.sources()))).message).toContain("36500d");
  });

  test("reads `none` as 0 where 0 is allowed", async () => {
    using box = new Sandbox();
    box.write(USER, "model_retries: none\nspawn_depth: none\nsupervisor_restarts: none\n");
    expect((await loadSettings(box.sources())).values).toMatchObject({
      model_retries: 0,
      spawn_depth: 0,
      supervisor_restarts: 0,
    });
  });

  test("that is empty, or has only comments, says nothing", async () => {
    using box = new Sandbox();
    box.write(USER, "");
    box.write(PROJECT, "# nothing yet\n");
    expect((await loadSettings(box.sources())).values).toEqual(defaultSettings().values);
  });
});

describe("an untrusted project's limits", () => {
  test("narrow the user's, and nothing of them goes beyond", async () => {
    using box = new Sandbox();
    box.write(USER, "max_cost: 2\nmax_steps: 50\ntimeout: 5m\nspawn_depth: none\n");
    const file = box.write(
      PROJECT,
      "max_cost: unlimited\nmax_steps: 51\ntimeout: 1m\nspawn_depth: 1\ntokens_per_day: 5\nevents_per_run: 1\n",
    );
    const { values: limits, withheld } = await loadSettings(box.sources());
    expect(limits).toMatchObject({
      max_cost: 2,
      max_steps: 50,
      timeout: 60_000,
      spawn_depth: 0,
      tokens_per_day: 5,
      events_per_run: 100_000,
    });
    expect(withheld).toEqual([
      `max_steps: 51 (yours: 50) in ${file}`,
      `max_cost: unlimited (yours: 2) in ${file}`,
      `spawn_depth: 1 (yours: none) in ${file}`,
      `events_per_run: 1 (yours: 100000) in ${file}`,
    ]);
    expect((await loadSettings(box.trusted())).values).toMatchObject({ max_cost: null, max_steps: 51 });
  });

  test("are compared with the default where the user has set none", async () => {
    using box = new Sandbox();
    box.write(PROJECT, "max_steps: 101\ncontext_budget: 1000000\n");
    const { values: limits, withheld } = await loadSettings(box.sources());
    expect(limits).toMatchObject({ max_steps: 100, context_budget: 1_000_000 });
    expect(withheld).toHaveLength(1);
  });
});

describe("a mistake in config.yaml is INVALID and names line and column", () => {
  test.each([
    ["an unknown key", "max_steps: 1\nmax_stepz: 5\n", "2:1", 'did you mean "max_steps"?'],
    ["a key with no near one", "colour: red\n", "1:1", 'unknown key "colour"'],
    ["zero steps", "max_steps: 0\n", "1:12", "write unlimited for no limit"],
    ["zero as a text", 'timeout: "0"\n', "1:10", "write unlimited for no limit"],
    ["zero seconds", "tool_timeout: 0s\n", "1:15", "above 0"],
    ["zero retries", "model_retries: 0\n", "1:16", "write none for not at all"],
    ["zero where neither word fits", "loop_threshold: 0\n", "1:17", "leave the key out for the default"],
    ["a negative number", "max_steps: -1\n", "1:12", "whole number of at least 1 or unlimited, got -1"],
    ["a fraction", "max_steps: 1.5\n", "1:12", "got 1.5"],
    ["a number in quotes", 'max_steps: "10"\n', "1:12", 'got "10"'],
    ["a duration without a unit", "timeout:   60\n", "1:12", "60s"],
    ["unlimited where there must be a limit", "tool_timeout: unlimited\n", "1:15", "expected a duration"],
    ["a size without a unit", "shell_disk: 4096\n", "1:13", "64KiB"],
    ["a number beyond its bounds", "grace: 1h\n", "1:8", "from 1ms to 10m"],
    ["a missing value", "max_steps:\n", "1:11", "got an empty value"],
    ["a list for a number", "max_steps: [1]\n", "1:12", "got a list"],
    ["a list for the whole", "- a\n", "1:1", "expected a mapping"],
    ["a key twice", "grace: 1s\ngrace: 2s\n", "2:1", "unique"],
    ["broken YAML", 'grace: "1s\n', "2:1", ""],
    ["an unknown tag", "grace: !secret 1s\n", "1:8", "tag"],
    ["an alias for nothing", "grace: *other\n", "1:8", "&other"],
    ["a plugin part that is no mapping", "plugins:\n  fs: 5\n", "2:7", "plugins.fs"],
  ])("%s", async (_, text, position, words) => {
    using box = new Sandbox();
    const file = box.write(USER, text);
    const error = await failure(() => loadSettings(box.sources()));
    expect(error.code).toBe("INVALID");
    expect(error.message).toStartWith(`${file}:${position}: `);
    expect(error.message).toContain(words);
  });

  test("all of them are named, in the order of the file", async () => {
    using box = new Sandbox();
    const file = box.write(USER, "max_steps: 0\nplugin: {}\ngrace: soon\n");
    const { message } = await failure(() => loadSettings(box.sources()));
    const sources = message.split("\n").map((line) => line.slice(file.length, line.indexOf(": ")));
    expect(sources).toEqual([":1:12", ":2:1", ":3:8"]);
  });

  test("a daemon's number in a project's file, which would be every project's", async () => {
    using box = new Sandbox();
    const file = box.write(PROJECT, "max_steps: 3\ndaemon_idle_stop: 1h\n");
    const error = await failure(() => loadSettings(box.sources()));
    expect(error.message).toStartWith(`${file}:2:1: `);
    expect(error.message).toContain("~/.config/rnix/config.yaml");
  });

  test("aliases that explode are refused", async () => {
    using box = new Sandbox();
    const levels = "bcdefghij".split("").map((name, i) => {
      const before = "abcdefghi"[i];
      return `  ${name}: &${name} [${Array(9).fill(`*${before}`).join(", ")}]`;
    });
    box.write(USER, `plugins:\n x:\n  a: &a [1]\n${levels.join("\n")}\n`);
    expect((await failure(() => loadSettings(box.sources()))).message).toContain("aliases");
  });

  test("a file that is not YAML, and one that is too large", async () => {
    using box = new Sandbox();
    box.folder(USER);
    expect((await failure(() => loadSettings(box.sources()))).message).toContain("expected a file");
    using other = new Sandbox();
    other.write(USER, `# ${"x".repeat(1024 * 1024)}\n`);
    expect((await failure(() => loadSettings(other.sources()))).message).toContain("1 MiB");
  });
});

describe("the plugins' parts", () => {
  test("are merged by plugin and key, the project's over the user's, once it is trusted", async () => {
    using box = new Sandbox();
    box.write(USER, "plugins:\n  web: { timeout: 5, backend: a }\n  fs: { x: 1 }\n");
    box.write(PROJECT, "plugins:\n  web: { backend: b }\n");
    const settings = await loadSettings({ ...box.sources(), trust: trustAll });
    expect(settings.plugins).toEqual({ web: { timeout: 5, backend: "b" }, fs: { x: 1 } });
    expect(settings.withheld).toEqual([]);
  });

  test("of an untrusted project are left out and named, while its limits narrow", async () => {
    using box = new Sandbox();
    box.write(USER, "plugins:\n  web: { backend: a }\n");
    const file = box.write(PROJECT, "max_steps: 3\nplugins:\n  web: { backend: evil }\n");
    const settings = await loadSettings(box.sources());
    expect(settings.plugins).toEqual({ web: { backend: "a" } });
    expect(settings.withheld).toEqual([`settings of the plugins web in ${file}`]);
    expect(settings.values.max_steps).toBe(3);
  });
});

test("every row says what it is, in which unit, and has a description of its own", () => {
  const abouts = Object.values(SETTINGS).map(({ about }) => about);
  expect(new Set(abouts).size).toBe(abouts.length);
});
