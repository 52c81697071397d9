import { existsSync, readFileSync } from "node:fs";
import { type Env, thisUser, userPaths } from "../config/paths.ts";
import { findProject, type Project } from "../config/project.ts";
import { describeSettings, loadSettings, type SettingLine } from "../config/settings.ts";
import { Trust } from "../config/trust.ts";
import { daemonLogPath } from "./daemon-log.ts";

/**
 * What commands do with the files of a user and a project, without a running server: the CLI's way to what
 * config and plugin/host know. Imported by the commands that need it and when they need it.
 */
export { checkSkills } from "../config/skills.ts";

export interface Where {
  cwd: string;
  env: Env;
}

/** Every setting as it is here, and what an untrusted project would have set. */
export async function settings(where: Where): Promise<{ lines: SettingLine[]; withheld: string[] }> {
  const { configDir, dataDir } = userPaths(where.env);
  const project = projectOf(where);
  const loaded = await loadSettings({ configDir, project, trust: new Trust(dataDir, project) });
  return { lines: describeSettings(loaded), withheld: loaded.withheld };
}

/** The lines of the daemon's log, also of one that has gone; its older half first. */
export function readDaemonLog(env: Env): string[] {
  const path = daemonLogPath(userPaths(env).dataDir);
  const text = [`${path}.1`, path]
    .map((file) => (existsSync(file) ? readFileSync(file, "utf8") : ""))
    .join("");
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

export function projectOf({ cwd, env }: Where): Project {
  const { home } = userPaths(env);
  return findProject({ cwd, home, uid: thisUser().uid, env });
}
