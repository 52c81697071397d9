/** The table of all commands. */

import type { Command } from "./command.ts";

interface Entry {
  group: string;
  load(): Promise<{ default: Command }>;
}

const LISTS = "List what is available";

/** Every command, loaded when it is called. The order is that of the help. */
export const COMMANDS: Readonly<Record<string, Entry>> = {
  spawn: { group: "Run", load: () => import("./commands/spawn.ts") },
  chat: { group: "Run", load: () => import("./commands/chat.ts") },
  attach: { group: "Run", load: () => import("./commands/attach.ts") },
  wait: { group: "Run", load: () => import("./commands/wait.ts") },
  suspend: { group: "Run", load: () => import("./commands/suspend.ts") },
  resume: { group: "Run", load: () => import("./commands/resume.ts") },
  replay: { group: "Run", load: () => import("./commands/replay.ts") },
  test: { group: "Run", load: () => import("./commands/test.ts") },
  kill: { group: "Run", load: () => import("./commands/kill.ts") },
  take: { group: "Run", load: () => import("./commands/take.ts") },
  undo: { group: "Run", load: () => import("./commands/undo.ts") },
  compact: { group: "Run", load: () => import("./commands/compact.ts") },
  pause: { group: "Run", load: () => import("./commands/pause.ts") },
  continue: { group: "Run", load: () => import("./commands/continue.ts") },
  allow: { group: "Run", load: () => import("./commands/allow.ts") },
  deny: { group: "Run", load: () => import("./commands/deny.ts") },
  asks: { group: "Run", load: () => import("./commands/asks.ts") },
  answer: { group: "Run", load: () => import("./commands/answer.ts") },
  compose: { group: "Run", load: () => import("./commands/compose.ts") },
  sh: { group: "Run", load: () => import("./commands/sh.ts") },
  workflow: { group: "Run", load: () => import("./commands/workflow.ts") },
  cron: { group: "Run", load: () => import("./commands/cron.ts") },
  call: { group: "Run", load: () => import("./commands/call.ts") },
  morning: { group: "Inspect", load: () => import("./commands/morning.ts") },
  ps: { group: "Inspect", load: () => import("./commands/ps.ts") },
  top: { group: "Inspect", load: () => import("./commands/top.ts") },
  dashboard: { group: "Inspect", load: () => import("./commands/dashboard.ts") },
  units: { group: "Inspect", load: () => import("./commands/units.ts") },
  show: { group: "Inspect", load: () => import("./commands/show.ts") },
  log: { group: "Inspect", load: () => import("./commands/log.ts") },
  steps: { group: "Inspect", load: () => import("./commands/steps.ts") },
  export: { group: "Inspect", load: () => import("./commands/export.ts") },
  diff: { group: "Inspect", load: () => import("./commands/diff.ts") },
  strace: { group: "Inspect", load: () => import("./commands/strace.ts") },
  cat: { group: "Inspect", load: () => import("./commands/cat.ts") },
  agents: { group: LISTS, load: () => import("./commands/agents.ts") },
  skills: { group: LISTS, load: () => import("./commands/skills.ts") },
  providers: { group: LISTS, load: () => import("./commands/providers.ts") },
  models: { group: LISTS, load: () => import("./commands/models.ts") },
  tools: { group: LISTS, load: () => import("./commands/tools.ts") },
  mcp: { group: LISTS, load: () => import("./commands/mcp.ts") },
  plugins: { group: LISTS, load: () => import("./commands/plugins.ts") },
  config: { group: LISTS, load: () => import("./commands/config.ts") },
  setup: { group: "Set up", load: () => import("./commands/setup.ts") },
  init: { group: "Set up", load: () => import("./commands/init.ts") },
  trust: { group: "Set up", load: () => import("./commands/trust.ts") },
  daemon: { group: "Set up", load: () => import("./commands/daemon.ts") },
  doctor: { group: "Set up", load: () => import("./commands/doctor.ts") },
  demo: { group: "Set up", load: () => import("./commands/demo.ts") },
  gc: { group: "Set up", load: () => import("./commands/gc.ts") },
  completions: { group: "Set up", load: () => import("./commands/completions.ts") },
  version: { group: "Set up", load: () => import("./commands/version.ts") },
};

/** The group of the stock plugins' commands. */
export const DEVICES = "Use devices";

/** Loads all commands with their definitions, the stock plugins' too, for the help, the completions and the tests. */
export async function loadCommands(): Promise<[string, Command][]> {
  const { stockDeviceCommands } = await import("./devices/device-commands.ts");
  const [own, devices] = await Promise.all([
    Promise.all(
      Object.entries(COMMANDS).map(
        async ([name, entry]): Promise<[string, Command]> => [name, (await entry.load()).default],
      ),
    ),
    stockDeviceCommands(),
  ]);
  return [...own, ...devices.filter(([name]) => !Object.hasOwn(COMMANDS, name))];
}
