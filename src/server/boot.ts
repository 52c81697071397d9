import { join } from "node:path";
import { type Env, thisUser, type UserPaths } from "../config/paths.ts";
import type { Project } from "../config/project.ts";
import { Projects } from "../config/projects.ts";
import { loadSettings, type Settings } from "../config/settings.ts";
import { Kernel } from "../kernel/kernel.ts";
import type { ChildEffects } from "../kernel/lifetime/child-effects.ts";
import { Secrets } from "../kernel/process/secrets.ts";
import { realClock } from "../lib/clock.ts";
import { withTimeout } from "../lib/timeout.ts";
import { becomeSubreaper, Children, sweepChildren } from "../os/children.ts";
import { descriptorLimit } from "../os/descriptors.ts";
import { carryKernelMark } from "../os/process-tag.ts";
import { embeddedAgents, embeddedSkills } from "../plugin/host/embedded.ts";
import { PluginHost } from "../plugin/host/host.ts";
import type { GuardedFolder } from "../plugin/index.ts";
import { FileLock } from "../store/files/file-lock.ts";
import { PidAllocator } from "../store/pid-allocator.ts";
import { requireOwn } from "../store/runs/own-run.ts";
import { RecordKey } from "../store/runs/record-key.ts";
import { RunStore } from "../store/runs/run-store.ts";
import { commit, version } from "../version.ts";
import { ProjectCatalog } from "./catalog/project-catalog.ts";
import { kernelFolders } from "./daemon/kernel-folders.ts";
import { KernelLocks } from "./daemon/kernel-locks.ts";
import { isLogged, type LogLevel } from "./daemon/log-level.ts";
import { modelRequestLimit } from "./daemon/request-limit.ts";
import { runLog } from "./daemon/run-log.ts";
import { CommandKeys } from "./plan/api-key-commands.ts";
import { planAdopt, planChildResume, planResume } from "./plan/plan-resume.ts";
import { parentUuid, planChild, planSpawn } from "./plan/plan-spawn.ts";
import { requireFolders } from "./plan/resume-differences.ts";
import { RunWatch } from "./plan/run-watch.ts";
import { Workspaces } from "./plan/workspace.ts";
import { Collector } from "./records/collector.ts";
import { driverHistory } from "./records/driver-history.ts";
import { GcSchedule } from "./records/gc-schedule.ts";
import { History } from "./records/history.ts";
import { AutoResume } from "./recovery/auto-resume.ts";
import { DaemonInit } from "./recovery/init-service.ts";
import { Recovery } from "./recovery/recovery.ts";
import { eachOf, wakerCallbacks, wakerOf } from "./recovery/waker-callbacks.ts";
import type { BootedServer, Host, Services } from "./services.ts";

interface BootOptions {
  user: UserPaths;
  /** The server's own environment: for questions that bring none. */
  env: Env;
  settings: Settings;
  host: Host;
  /** From here on what drivers and the kernel tell is logged; runs, as they begin and end, at info. */
  logLevel: LogLevel;
  /** It removes old runs by itself: the long-running process does. */
  collects?: boolean;
  /** It goes on by itself with runs that wait: the long-running process does. */
  wakes?: boolean;
  /** This process exists for the kernel; see `becomeSubreaper`. */
  alone?: boolean;
  log(text: string): void;
}

const SWEEP_WAIT_MS = 500;

/** The one place where a kernel is built and handed its ports. */
export async function boot({
  user,
  env,
  settings,
  host,
  logLevel,
  log,
  collects = false,
  wakes = false,
  alone = false,
}: BootOptions): Promise<BootedServer> {
  const clock = realClock;
  const { limits } = settings;
  const folders = kernelFolders(user.dataDir);

  // The lock first: from here on nobody takes our programs and runs for a dead kernel's.
  const locks = new KernelLocks(folders.locks);
  const kernelId = Bun.randomUUIDv7();
  const lock = locks.take(kernelId);
  becomeSubreaper({ alone });
  if (alone) carryKernelMark(kernelId);
  let sweep = sweepLeftovers(folders.ledgers, locks, limits.graceMs, log);
  // A kernel that died since the last one began is in the next.
  const sweepAgain = (): Promise<void> => {
    sweep = sweep.then(() => sweepLeftovers(folders.ledgers, locks, limits.graceMs, log));
    return sweep;
  };

  const children = new Children({
    ledgerDir: folders.ledgers,
    kernelId,
    graceMs: limits.graceMs,
    memoryBytes: limits.shellMemoryBytes,
    diskBytes: limits.shellDiskBytes,
    onFault: (error) => log(`programs: ${error.message}`),
  });
  const fetchedKeys = new Secrets();
  const pids = new PidAllocator(join(user.dataDir, "pids"), { warn: log });
  const recordKey = RecordKey.open(recordKeyFile(user));
  const stores = new Map<string, RunStore>();
  const runs = (dataDir: string): RunStore => {
    const known = stores.get(dataDir) ?? new RunStore(dataDir, undefined, recordKey);
    stores.set(dataDir, known);
    return known;
  };
  const logFrom = (level: LogLevel, source: string, text: string): void => {
    if (isLogged(level, logLevel)) log(`${level} ${source}: ${text}`);
  };
  const kernel: Kernel = new Kernel({
    version,
    kernelId,
    platform: `${process.platform} ${process.arch}`,
    userDataDir: user.dataDir,
    fetchedKeys,
    guarded: guardedFolders(user),
    clock,
    random: Math.random,
    uuid: () => Bun.randomUUIDv7(),
    pids,
    children,
    runs,
    history: {
      runs: (query) => drivers.runs(query),
      steps: (uuid, after, max) => drivers.steps(uuid, after, max),
    },
    kernelAlive: (id) => locks.isAlive(id),
    async sweepPrograms() {
      await sweepAgain();
      recovery.again();
    },
    planChild: (uuid, wish) => planChild(uuid, wish, spawnPorts),
    planChildResume: async (uuid, child) => planChildResume(uuid, await history.byUuid(child), spawnPorts),
    runsIn: { begin: (project) => watch.begin(project), end: (project) => watch.end(project) },
    liveProcesses: settings.server.liveProcesses,
    openRequests: modelRequestLimit(env, descriptorLimit()),
    wakes,
    mailed: (uuid) => waker?.mailed(uuid),
    callbacks: eachOf(
      runLog({ info: (pid) => kernel.processes.info(pid), log: logFrom }),
      wakerCallbacks(() => ({ waker, kernel })),
    ),
    log: logFrom,
  });

  const plugins = new PluginHost({ configDir: user.configDir });
  const workspaces = new Workspaces({
    user,
    uid: thisUser().uid,
    plugins,
    hasRuns: (project) => watch.hasRuns(project),
    embedded: { agents: embeddedAgents, skills: embeddedSkills },
  });
  const watch = new RunWatch({
    userDataDir: user.dataDir,
    kernelId,
    kernelAlive: (id) => locks.isAlive(id),
    project: (dir) => workspaces.projectOf({ cwd: dir, env: {} }),
    items: (project) => workspaces.trustItems(project),
    warn: (source, text) => logFrom("warn", source, text),
  });
  const projects = new Projects(user.dataDir, FileLock, (text) => logFrom("warn", "projects", text));
  const history = new History({
    dataDirs: (cwd) => dataDirs(projects, workspaces, stores, env, cwd),
    open: runs,
    kernelAlive: (id) => locks.isAlive(id),
    unrecordedEnd: (uuid) => kernel.lifecycle.unrecordedEnd(uuid),
  });
  const drivers = driverHistory(history);

  const lastCollected = join(user.dataDir, "gc", "last.json");
  const collector = new Collector({
    dataDirs: () => dataDirs(projects, workspaces, stores, env, undefined),
    open: runs,
    kernelAlive: (id) => locks.isAlive(id),
    limits: async () => (await loadSettings({ configDir: user.configDir })).retention,
    lockPath: join(user.dataDir, "gc", "lock"),
    lastPath: lastCollected,
    clock,
  });

  const keys = new CommandKeys({
    children,
    clock,
    fetched: fetchedKeys,
    spillDir: join(user.dataDir, "tmp"),
    lockDir: join(user.dataDir, "keys"),
  });
  const spawnPorts = {
    workspaces,
    clock,
    keys,
    parent: (uuid: string) => {
      const pid = kernel.processes.findPid(uuid);
      if (pid === undefined) return undefined;
      const requireEffects = (effects: ChildEffects): void => kernel.processes.requireEffects(pid, effects);
      return { pid, requireEffects, ...kernel.processes.inherited(pid) };
    },
    services: (project: Project, type: string) => kernel.mounts.services(project, type),
    remember: (project: Project) => projects.remember(project),
  };
  const init = new DaemonInit({
    kernel: kernel.init,
    user,
    env,
    clock,
    projects: () => projectFolders(projects),
    spawn: spawnPorts,
    before: (place) => recovery.takeSupervised(place),
    log: logFrom,
  });
  const recovery = new Recovery({
    clock,
    lockFile: join(user.dataDir, "recovery.lock"),
    locks,
    dataDirs: () => dataDirs(projects, workspaces, stores, env, undefined),
    open: runs,
    endPrograms: sweepAgain,
    placesFilled: () => !init.starting,
    find: (uuid) => history.byUuid(uuid),
    resume: (uuid) => unattended.resume(uuid, "rnix has started again"),
    log: (level, text) => logFrom(level, "recovery", text),
  });
  const system: Services = {
    kernel,
    history,
    collector,
    catalog: new ProjectCatalog({ workspaces, clock, env, keys, children }),
    clock,
    identity: { version, build: commit, startedAtMs: clock.now() },
    host,
    init,
    recovery,
    originOf: (pid) => children.originOf(pid),
    strays: () => children.strays(),
    log,
    async plan(request, unit) {
      // What a run spawns is a part of it.
      const inside = parentUuid(request, unit) !== undefined;
      const left = inside ? [] : await init.ready(request);
      const plan = await planSpawn(request, unit, spawnPorts);
      const unkept = recordKey.lasting ? [] : [noKey(user)];
      return { ...plan, notices: [...left, ...unkept, ...plan.notices] };
    },
    planAdopt: (run, request) => planAdopt(run, request, spawnPorts),
    async planResume(run, request, provider) {
      requireOwn(run.info);
      requireFolders(run.info);
      const left = await init.ready({ cwd: run.info.project, env: request.env });
      const plan = await planResume(run, request, spawnPorts, provider);
      return { ...plan, notices: [...left, ...plan.notices] };
    },
  };
  const unattended = new AutoResume({
    kernel,
    find: (uuid) => history.byUuid(uuid),
    planResume: system.planResume,
    log: logFrom,
  });
  const waker = wakes ? wakerOf({ clock, history, runs, kernel, unattended, log: logFrom }) : undefined;
  system.waker = waker;
  // Waited for, but not for the grace of a program that will not go: the first client is here.
  await withTimeout(clock, SWEEP_WAIT_MS, sweep);
  const { everyMs } = settings.retention;
  const auto = collects && new GcSchedule({ collector, lastPath: lastCollected, everyMs, clock, log });
  return {
    system,
    async close() {
      if (auto) await auto.close();
      await waker?.close();
      await recovery.close();
      await plugins.close();
      await children.close();
      await sweep;
      pids.release();
      // As long as the file is there somebody looks for what is to go on.
      lock.release({ remove: !kernel.lifecycle.handsOver });
    },
  };
}

/** Ends the programs of dead kernels. It never rejects: a fault is logged. */
async function sweepLeftovers(
  ledgerDir: string,
  locks: KernelLocks,
  graceMs: number,
  log: (text: string) => void,
): Promise<void> {
  try {
    for (const { argv, pids } of await sweepChildren(ledgerDir, (id) => locks.isAlive(id), { graceMs })) {
      log(`ended what a dead rnix left running: ${argv.join(" ")} (PIDs ${pids.join(", ")})`);
    }
  } catch (error) {
    log(
      `what a dead rnix left could not be ended: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Of those that have one: runs outside of projects have no init.yaml but the user's. */
function projectFolders(projects: Projects): string[] {
  const known = projects.list().filter(({ id }) => id !== "user");
  return [...new Set(known.map(({ dir }) => dir))];
}

/** Where runs may be: of every project known, of those in use, and of the one that is asked from. */
function dataDirs(
  projects: Projects,
  workspaces: Workspaces,
  inUse: ReadonlyMap<string, RunStore>,
  env: Env,
  cwd: string | undefined,
): string[] {
  const known = projects.list().map((project) => project.data_dir);
  const here = cwd === undefined ? [] : [workspaces.projectOf({ cwd, env }).dataDir];
  return [...new Set([...here, ...known, ...inUse.keys()])];
}

/** The key that makes records this user's own. */
function recordKeyFile({ dataDir }: Pick<UserPaths, "dataDir">): string {
  return join(dataDir, "record.key");
}

function noKey(user: UserPaths): string {
  return `no key could be written to ${recordKeyFile(user)}: the record of this run is foreign to later commands, so it can't be resumed`;
}

/**
 * What would let a run raise itself above its rights, or lie about what it did. Not the whole data folder: the
 * demo's project lies in it.
 */
function guardedFolders({ configDir, dataDir }: UserPaths): GuardedFolder[] {
  const { locks, ledgers } = kernelFolders(dataDir);
  const key = { dir: recordKeyFile({ dataDir }), readable: false };
  const own = [
    locks,
    ledgers,
    ...["trust", "steps", "index", "spending", "gc", "keys", "plugins"].map((name) => join(dataDir, name)),
  ];
  return [{ dir: configDir, readable: false }, key, ...own.map((dir) => ({ dir, readable: true }))];
}
