/** The workspace of a folder: its project, trust, sources and plugins. */

import { realpathSync } from "node:fs";
import { join, relative } from "node:path";
import type { ConfigSources } from "../../config/config-sources.ts";
import type { Env, UserPaths } from "../../config/environment/paths.ts";
import { findProject, type Project } from "../../config/project/project.ts";
import type { Settings } from "../../config/settings/settings.ts";
import { Trust, type TrustItem, trustAll } from "../../config/trust/trust.ts";
import { type WorktreeOrigin, worktreeAt } from "../../kernel/files/worktree-origin.ts";
import type { ProjectHandle } from "../../kernel/types.ts";
import { LastEqual } from "../../lib/caches.ts";
import { innerPath } from "../../lib/inner-path.ts";
import type { HostProject, PluginHost } from "../../plugin/host/host.ts";
import type { HostLease } from "../../plugin/host/lease.ts";
import type { PluginReport } from "../../plugin/host/report.ts";
import type { BaseRevision, BaseRevisions } from "./base-revision.ts";

interface WorkspacePorts {
  user: UserPaths;
  uid: number;
  plugins: Pick<PluginHost, "lease" | "list" | "review">;
  bases: Pick<BaseRevisions, "open">;
  /** Whether a run is active in the project: changes meanwhile may be its own. */
  hasRuns(project: Project): boolean;
  /** The stock ones, loaded at their first use. */
  embedded: { agents(): Promise<ConfigSources["agents"]>; skills(): Promise<ConfigSources["skills"]> };
}

interface Where {
  /** Absolute. */
  cwd: string;
  env: Env;
  /** `--trust`: trusts all parts of the project, only this time. */
  trustAll?: boolean;
  /**
   * `--base`: definitions come from this revision. `commit`: of a record or a parent, which has resolved it. `cwd`: the
   * run's folder, if it is another.
   */
  base?: { ref: string; commit?: string; cwd?: string };
}

/** The workspace of a command: its project, the trusted parts, and what it can load. */
export interface Workspace {
  project: Project;
  /** With `--base`: the revision that `sources` reads. */
  base: BaseRevision | null;
  /** Where the instructions of the folder are read: below `sources.project`. */
  docFolder: string;
  /** What processes have of the project. `trusted`: the user trusts a part of it, or all of it only this time. */
  handle: ProjectHandle;
  sources: ConfigSources;
  /** The devices, held until they are released. */
  lease(settings: Settings): Promise<HostLease>;
  pluginReports(settings: Settings): Promise<PluginReport[]>;
}

const handles = new LastEqual<ProjectHandle>();

/** Finds the workspace of a folder. Nothing is cached, so that edits, moves and trust take effect immediately. */
export class Workspaces {
  readonly #ports: WorkspacePorts;
  #embedded: Promise<Pick<ConfigSources, "agents" | "skills">> | undefined;

  constructor(ports: WorkspacePorts) {
    this.#ports = ports;
  }

  /** A worktree belongs to the project from which it came. */
  projectOf({ cwd, env }: Pick<Where, "cwd" | "env">): Project {
    return this.#projectAt(worktreeAt(this.#ports.user.dataDir, cwd)?.home ?? cwd, env);
  }

  /** `cwd`: in no worktree. */
  #projectAt(cwd: string, env: Env): Project {
    const { user, uid } = this.#ports;
    return findProject({ cwd, home: user.home, uid, env });
  }

  async at(given: Where): Promise<Workspace> {
    const { user, plugins } = this.#ports;
    const origin = worktreeAt(user.dataDir, given.cwd);
    const where = origin === null ? given : inHome(given, origin);
    const project = this.#projectAt(where.cwd, where.env);
    const cwd = where.base ? realpathSync(where.base.cwd ?? where.cwd) : where.cwd;
    const base = where.base
      ? await this.#ports.bases.open({ project, cwd, env: where.env, base: where.base })
      : null;
    const hasRuns = this.#ports.hasRuns(project);
    const byUser = new Trust(user.dataDir, project, { hasRuns, definitions: base?.dir });
    const trust = where.trustAll ? trustAll : byUser;
    const defined = base === null ? project : { ...project, dir: base.dir };
    const hostProject = ({ plugins: settings, words }: Settings): HostProject => ({
      id: project.id,
      dir: defined.dir,
      workTree: project.dir,
      kind: project.kind,
      isTrusted: (files) => trust.allows({ files }),
      settings,
      sandbox: pluginSandbox(words),
    });
    return {
      project,
      base,
      docFolder: base === null ? where.cwd : join(base.dir, relative(project.dir, cwd)),
      handle: handles.of({
        id: project.id,
        dir: origin?.dir ?? project.dir,
        dataDir: project.dataDir,
        ...(origin && { home: project.dir }),
        trusted: where.trustAll === true || byUser.since !== null,
      }),
      sources: {
        project: defined,
        base: base?.view,
        trust,
        configDir: user.configDir,
        home: user.home,
        ...(await this.#stock()),
      },
      lease: (settings) => plugins.lease(hostProject(settings)),
      pluginReports: (settings) => plugins.list(hostProject(settings)),
    };
  }

  /** The current content of all parts of the project that need trust. */
  async trustItems(project: Project): Promise<TrustItem[]> {
    const { user, plugins } = this.#ports;
    const trust = new Trust(user.dataDir, project);
    const [{ trustItems }, stock] = await Promise.all([import("../../config/trust-items.ts"), this.#stock()]);
    const reviewed = await plugins.review({ ...project, isTrusted: () => false });
    const { configDir, home } = user;
    return trustItems({ project, trust, configDir, home, ...stock }, trust, reviewed);
  }

  #stock(): Promise<Pick<ConfigSources, "agents" | "skills">> {
    const { embedded } = this.#ports;
    this.#embedded ??= Promise.all([embedded.agents(), embedded.skills()]).then(([agents, skills]) => ({
      agents,
      skills,
    }));
    return this.#embedded;
  }
}

/** What a run's flags say of its sandbox does not change that of a plugin, which works for many runs. */
function pluginSandbox({
  sandbox,
  sandbox_level,
  plugins_outside,
}: Settings["words"]): HostProject["sandbox"] {
  if (sandbox === "off") return undefined;
  return {
    level: sandbox_level === "read-only" ? sandbox_level : "project",
    required: sandbox === "required",
    outside: plugins_outside?.split(",").map((name) => name.trim()) ?? [],
  };
}

/** Definitions and trust of a run in a worktree are those of the project itself, which the run can't change. */
function inHome(where: Where, { home, dir }: WorktreeOrigin): Where {
  const mapped = (cwd: string): string => join(home, innerPath(dir, cwd) ?? "");
  const { base } = where;
  return { ...where, cwd: mapped(where.cwd), ...(base?.cwd && { base: { ...base, cwd: mapped(base.cwd) } }) };
}

export const BASES = "base";
