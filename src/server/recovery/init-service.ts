import { existsSync } from "node:fs";
import { daemonEnvironment, userEnv } from "../../config/environment.ts";
import { filesOfInit, loadProjectInit, loadUserInit, projectInitFile } from "../../config/init.ts";
import type { Env, UserPaths } from "../../config/paths.ts";
import type { Project } from "../../config/project.ts";
import { loadSettings } from "../../config/settings.ts";
import type { InitManager } from "../../kernel/init-manager.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Logger } from "../../lib/logger.ts";
import { withTimeout } from "../../lib/timeout.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Diagnostic, InitUnitWire } from "../../protocol/methods.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import type { Run } from "../records/recorded-run.ts";
import { initPlan } from "./init-plan.ts";

interface InitPorts {
  kernel: Pick<InitManager, "initBoot" | "initStatus">;
  user: UserPaths;
  /** The server's own environment. */
  env: Env;
  clock: Clock;
  /** Folders of the projects this user has run something in. */
  projects(): string[];
  spawn: SpawnPorts;
  /** The run of before that had this place in an init.yaml and was cut off, once. */
  before(place: string): Promise<Run | undefined>;
  logger: Logger;
}

/** What init.yaml is for the rest of the server. */
export interface InitService {
  /** Brings up the user's, and after it that of every known project. Rejects with why the user's is not up. */
  start(): Promise<void>;
  /** Resolves when the user's is up; where nothing is to be brought up, at once. */
  started(): Promise<void>;
  /** It is still being brought up, or could not be. */
  readonly starting: boolean;
  /**
   * Waits until a run may begin in this place. Returns notices for the run; UNAVAILABLE or INVALID says
   * what is wrong with the init.yaml.
   */
  ready(where: { cwd: string; env: Env }): Promise<string[]>;
  status(): { units: InitUnitWire[]; problems: Diagnostic[] };
}

/** Less than a client waits for the answer to its spawn. */
const READY_MS = 25_000;

/**
 * What is started with the daemon: the user's init.yaml and those of projects, where they are trusted. One of the
 * user's that can't be brought up is the daemon's end. A project's concerns its own runs alone: they are refused
 * until it is up, and each of them tries it again. One that is up is read again when the daemon starts next.
 */
export class DaemonInit implements InitService {
  readonly #ports: InitPorts;
  readonly #env: Record<string, string>;
  #user: Promise<void> | undefined;
  #up = false;
  /** Of projects that are up, or just being brought up, by folder. */
  readonly #projects = new Map<string, Promise<string[]>>();
  /** Why others are not, by file. */
  readonly #problems = new Map<string, string>();

  constructor(ports: InitPorts) {
    this.#ports = ports;
    this.#env = daemonEnvironment(ports.env);
  }

  async start(): Promise<void> {
    this.#user ??= this.#bootUser();
    await this.#user;
    this.#up = true;
    // Not awaited: each run waits for its own project only.
    for (const dir of this.#ports.projects()) void this.#attempt(dir);
  }

  async started(): Promise<void> {
    await this.#user;
  }

  get starting(): boolean {
    return this.#user !== undefined && !this.#up;
  }

  async ready(where: { cwd: string; env: Env }): Promise<string[]> {
    if (!this.#user) return [];
    const project = this.#ports.spawn.workspaces.projectOf(where);
    let notices: string[] = [];
    const up = this.#user.then(async () => {
      notices = await this.#ofProject(project);
    });
    if (await withTimeout(this.#ports.clock, READY_MS, up)) return notices;
    const waits = this.status().units.find(({ state }) => state === "starting");
    throw new SyscallError(
      "UNAVAILABLE",
      `init.yaml is still starting${waits ? `: it waits for the ${waits.type} ${waits.name}` : ""}. Try again in a moment. \`rnix daemon status\` shows its progress.`,
    );
  }

  status(): { units: InitUnitWire[]; problems: Diagnostic[] } {
    const units = this.#ports.kernel
      .initStatus()
      .map(({ sinceMs, ...same }): InitUnitWire => ({ ...same, since_ms: sinceMs }));
    return { units, problems: [...this.#problems].map(([path, message]) => ({ path, message })) };
  }

  async #bootUser(): Promise<void> {
    const { configDir, home } = this.#ports.user;
    const init = await loadUserInit(configDir, home);
    if (!init) return;
    await this.#boot(init, null, await loadSettings({ configDir }));
  }

  /** At the daemon's start: a failure is logged, and shown to each run of the project. */
  async #attempt(dir: string): Promise<void> {
    const { workspaces } = this.#ports.spawn;
    try {
      if (!existsSync(dir)) return;
      for (const notice of await this.#ofProject(workspaces.projectOf({ cwd: dir, env: this.#env }))) {
        this.#ports.logger.warn(`init ${dir}`, notice);
      }
    } catch (thrown) {
      this.#ports.logger.warn(`init ${dir}`, thrown instanceof Error ? thrown.message : String(thrown));
    }
  }

  /** Brings it up unless it is up. Answers what a run there goes without. */
  async #ofProject(project: Project): Promise<string[]> {
    const file = projectInitFile(project);
    const known = this.#projects.get(project.dir);
    if (known) return await known;
    if (file === null || !existsSync(file)) return [];
    const boot = this.#bootProject(file, project);
    this.#projects.set(project.dir, boot);
    try {
      const left = await boot;
      // One that is not trusted is looked at again by the next run.
      if (left.length > 0) this.#projects.delete(project.dir);
      else this.#problems.delete(file);
      return left;
    } catch (thrown) {
      this.#projects.delete(project.dir);
      this.#problems.set(file, thrown instanceof Error ? thrown.message : String(thrown));
      throw thrown;
    }
  }

  /** Answers what is left out because it is not trusted: with what its commands name in the project. */
  async #bootProject(file: string, { dir }: Project): Promise<string[]> {
    const { sources } = await this.#ports.spawn.workspaces.at({ cwd: dir, env: this.#env });
    const { trust } = sources;
    const init = trust.allowsFiles([file]) ? await loadProjectInit(file) : null;
    if (!init || !trust.allowsNamed(filesOfInit(init, dir))) {
      this.#problems.set(file, "it is not trusted, so it is left out: `rnix trust` shows and trusts it");
      return [`not trusted, so left out: the services of ${file}. \`rnix trust\` shows and trusts it.`];
    }
    await this.#boot(init, dir, await loadSettings(sources));
    return [];
  }

  async #boot(
    init: Parameters<typeof initPlan>[0],
    project: string | null,
    settings: Awaited<ReturnType<typeof loadSettings>>,
  ): Promise<void> {
    const { kernel, user, spawn, before, logger } = this.#ports;
    const keys = (): Env => userEnv(user.configDir);
    const at = { project, home: user.home, settings, env: this.#env, keys, ports: spawn, before };
    const plan = initPlan(init, { ...at, logger });
    const began = this.#ports.clock.monotonic();
    try {
      await kernel.initBoot(plan);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      throw new SyscallError(thrown.code, `${init.file}: ${thrown.message}`, { cause: thrown });
    }
    const ms = Math.round(this.#ports.clock.monotonic() - began);
    logger.info(
      "init",
      `${init.file} is up after ${ms} ms: ${plan.units.map(({ name }) => name).join(", ")}`,
    );
  }
}
