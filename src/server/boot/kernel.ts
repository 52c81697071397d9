/** Builds the kernel of a server. */

import { dirname, join } from "node:path";
import type { UserPaths } from "../../config/environment/paths.ts";
import { loadSettings } from "../../config/settings/settings.ts";
import { CRON } from "../../cron/cron-folder.ts";
import { ORIGINS } from "../../kernel/files/worktree-origin.ts";
import { createKernel, type Kernel } from "../../kernel/kernel.ts";
import type { Asker, KernelPorts } from "../../kernel/kernel-ports.ts";
import { lazy } from "../../lib/caches.ts";
import type { Logger } from "../../lib/logger.ts";
import { descriptorLimit } from "../../os/libc.ts";
import { ownCommand } from "../../os/own-program.ts";
import type { GuardedFolder } from "../../plugin/index.ts";
import type { LiveAsk } from "../../run/live-event.ts";
import { version } from "../../version.ts";
import { mountLog } from "../daemon/daemon-log.ts";
import { kernelFolders } from "../daemon/kernel-locks.ts";
import { modelRequestLimit } from "../daemon/request-limit.ts";
import { runLog } from "../daemon/run-log.ts";
import { askOf } from "../methods/shared/stream-events.ts";
import type { Notifier } from "../notify/notifier.ts";
import { planChild, type SpawnPorts } from "../plan/plan-spawn.ts";
import { BASES, type Workspaces } from "../plan/workspace.ts";
import type { OpenedCron } from "./cron.ts";
import { KernelEvents, type KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { OpenedProjects } from "./projects.ts";
import { type Records, recordKeyFile } from "./records.ts";

export interface StartedKernel {
  kernel: Kernel;
  events: KernelEvents;
}

/** The daemon keeps an MCP server this long for the next run. */
const MOUNTS_KEPT_MS = 60_000;

/** The one place where a kernel is built and given its ports. */
export function startKernel(
  { user, env, settings, logger, daemon = false }: BootOptions,
  machine: Machine,
  records: Records,
  { runWatch, fetchedKeys, workspaces, notifier }: OpenedProjects,
  planner: SpawnPorts,
  cron: Pick<OpenedCron, "schedule">,
  port: KernelPort,
  traces: boolean,
): StartedKernel {
  const { open, history } = records;
  const { clock, kernelId, kernelAlive, pids, children } = machine;
  const events = new KernelEvents();
  const kernel = createKernel({
    version,
    kernelId,
    platform: `${process.platform} ${process.arch}`,
    userDataDir: user.dataDir,
    fetchedKeys,
    guarded: guardedFolders(user),
    sandboxing: {
      own: [user.configDir, user.dataDir],
      userHome: user.home,
      socket: user.socket,
      binary: process.execPath,
    },
    clock,
    random: Math.random,
    uuid: () => Bun.randomUUIDv7(),
    pids,
    children,
    network: { folder: join(dirname(user.socket), "net"), program: ownCommand(), resolve },
    runs: open,
    ...driverServices(records, user.dataDir),
    schedule: cron.schedule,
    kernelAlive,
    async sweepPrograms() {
      await machine.sweep();
      events.onSweep();
    },
    planChild: (uuid, wish, child) => planChild(uuid, wish, child, planner),
    async planChildResume(uuid, child) {
      const { planChildResume } = await import("../plan/plan-resume.ts");
      return planChildResume(uuid, await (await history()).byUuid(child), planner);
    },
    worktrees: records.worktrees,
    runsIn: runWatch,
    liveProcesses: settings.values.live_processes,
    openRequests: modelRequestLimit(env, descriptorLimit()),
    mountsKeptMs: daemon ? MOUNTS_KEPT_MS : 0,
    wakes: daemon,
    traces,
    asker: serverAsker({
      userDataDir: user.dataDir,
      workspaces,
      notifier,
      projectOf: (pid) => port.kernel.processes.identity(pid).project,
      logger,
    }),
    mailed: (uuid) => events.onMail(uuid),
    callbacks: events,
    log: (level, source, text) => logger[level](source, text),
    mountLog: (mount, text) => mountLog(user.dataDir, clock, mount, text),
  });
  port.connect(kernel);
  machine.keepLockFileIf(() => kernel.lifecycle.handsOver);
  // A command logs warnings alone.
  if (logger.lowest !== "warn")
    events.add(runLog({ identity: (pid) => kernel.processes.identity(pid), logger }));
  return { kernel, events };
}

/** What drivers find in recorded runs. Most runs look for nothing: the code is loaded with the first question. */
function driverServices(
  { history, search: index, projects, dataDirs }: Records,
  userDataDir: string,
): Pick<KernelPorts, "history" | "search"> {
  const loaded = () => import("../records/driver-search.ts");
  const runs = lazy(async () => (await loaded()).driverHistory(await history()));
  const ports = { index, userDataDir, projects: () => projects.list(), dataDirs: () => dataDirs() };
  return {
    history: {
      runs: async (query) => (await runs()).runs(query),
      steps: async (...asked) => (await runs()).steps(...asked),
    },
    search(plugin, project) {
      const search = lazy(async () => (await loaded()).driverSearch(ports, plugin, project));
      return {
        sources: async (...asked) => (await search()).sources(...asked),
        put: async (...asked) => (await search()).put(...asked),
        find: async (query) => (await search()).find(query),
      };
    },
  };
}

/** Most runs have no limit of their network: the code is loaded with the first. */
async function resolve(name: string): Promise<string[]> {
  const { systemResolve } = await import("../../proxy/addresses.ts");
  return systemResolve(name);
}

interface AskerPorts {
  userDataDir: string;
  workspaces: Pick<Workspaces, "at" | "projectOf">;
  notifier: () => Pick<Notifier, "notify">;
  /** The project folder of a live process. */
  projectOf(pid: number): string;
  logger: Logger;
}

function serverAsker({ userDataDir, workspaces, notifier, projectOf, logger }: AskerPorts): Asker {
  const notify = async (ask: LiveAsk, project: string): Promise<void> => {
    const { sources } = await workspaces.at({ cwd: project, env: {} });
    const { on_ask: target } = (await loadSettings(sources)).words;
    if (target !== null)
      notifier().notify({ target, cwd: project }, { event: "ask", project, ...askOf(ask) });
  };
  return {
    parked(ask) {
      notify(ask, projectOf(ask.pid)).catch((thrown: unknown) =>
        logger.warn(`run ${ask.uuid}`, `the hook of its question: ${String(thrown)}`),
      );
    },
    async allowInProject({ dir }, rules) {
      const { allowAlways } = await import("../../config/settings/always-rules.ts");
      const { dev, ino, ctimeMs } = await allowAlways(
        userDataDir,
        workspaces.projectOf({ cwd: dir, env: {} }),
        rules,
      );
      return [{ dev, ino, ctimeMs }];
    },
  };
}

/** In the user's data folder. Stock plugins that store documents there have folders of their own. */
const OWN = [
  ...["trust", "steps", "index", "spending", "gc", "keys", "plugins", "projects", "memory"],
  ...[BASES, CRON, ORIGINS],
];

/**
 * Folders that no run may write to: with them a run could raise its own rights or falsify its record. The data folder
 * as a whole is not among them, because it contains the demo's project.
 */
export function guardedFolders({ configDir, dataDir }: UserPaths): GuardedFolder[] {
  const { locks, ledgers, mountLogs } = kernelFolders(dataDir);
  const key = { dir: recordKeyFile({ dataDir }), readable: false };
  const own = [locks, ledgers, ...OWN.map((name) => join(dataDir, name))];
  // A server may print its keys.
  const logs = { dir: mountLogs, readable: false };
  return [{ dir: configDir, readable: false }, key, logs, ...own.map((dir) => ({ dir, readable: true }))];
}
