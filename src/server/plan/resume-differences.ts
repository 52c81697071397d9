/** Compares what a resumed run had with what it has now. */

import { statSync } from "node:fs";
import { providerFacts } from "../../kernel/process/process-info.ts";
import type { ProcInfo, SpawnOpts } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";

/** Variables that identify a terminal or session: no run relies on them. */
const OF_A_SESSION =
  /^(?:_|OLDPWD|SHLVL|COLORTERM|TERM_\w+|DISPLAY|WAYLAND_\w+|WINDOWID|VTE_\w+|TMUX\w*|STY|SSH_\w+|XDG_SESSION_\w+|DBUS_\w+|VSCODE_\w+)$/;
/** Names in one notice. */
const NAMED = 10;

/** Fails with INVALID when a folder of the run no longer exists. */
export function requireFolders({ uuid, project, cwd }: ProcInfo): void {
  for (const [what, folder] of [
    ["project", project],
    ["folder", cwd],
  ]) {
    if (folder !== undefined && isFolder(folder)) continue;
    throw new SyscallError(
      "INVALID",
      `The ${what} of run ${uuid}, ${folder}, no longer exists. Move it back, or start a new run with rnix spawn.`,
    );
  }
}

/** The variables that the run had: with the recorded value if there is one, else the current value. No others. */
export function restoredEnvironment(
  { env }: ProcInfo,
  today: Record<string, string>,
): Record<string, string> {
  const had = new Set(env.names);
  return Object.fromEntries(Object.entries(today).filter(([name]) => had.has(name)));
}

/** What the run had and no longer has, or has changed: shown to the user who resumes it. */
export function resumeDifferences(info: ProcInfo, { env: today, devices, provider }: SpawnOpts): string[] {
  const { env, versions } = info;
  const missing = env.names.filter((name) => !(name in today) && !OF_A_SESSION.test(name));
  const { rnix: _rnix, ...before } = versions;
  const changed = Object.entries(before).filter(
    ([name, version]) => name in devices.versions && devices.versions[name] !== version,
  );
  const gone = Object.keys(before).filter((name) => !(name in devices.versions));
  return [
    ...notice("variables that it had and are not in this environment", missing),
    ...notice(
      "plugins that have changed since it ran",
      changed.map(([name]) => name),
    ),
    ...notice("plugins that it had and are not loaded now", gone),
    ...otherProvider(info, provider),
  ];
}

/** Its conversation goes to another server or model, or the context window differs. */
function otherProvider(
  { provider: name, provider_facts: was }: ProcInfo,
  choice: SpawnOpts["provider"],
): string[] {
  if (!was || !choice || choice.name !== name) return [];
  const is = providerFacts(choice);
  const differ = FACTS.flatMap(([fact, what]) =>
    was[fact] === is[fact] ? [] : [`${what} was ${was[fact] ?? "not set"} and is ${is[fact] ?? "not set"}`],
  );
  return differ.length === 0 ? [] : [`its provider ${name} is not what it was: ${differ.join("; ")}`];
}

const FACTS = [
  ["driver", "the driver"],
  ["base_url", "the address"],
  ["context_window", "the context window"],
  ["max_output", "the longest answer"],
] as const;

function notice(what: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return [`${what}: ${names.slice(0, NAMED).join(", ")}${more}`];
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
