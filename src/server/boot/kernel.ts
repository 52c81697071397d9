/** Builds the kernel of a server. */

import { dirname, join } from "node:path";
import { Kernel } from "../../kernel/kernel.ts";
import { descriptorLimit } from "../../os/descriptors.ts";
import { ownCommand } from "../../os/own-program.ts";
import { version } from "../../version.ts";
import { mountLog } from "../daemon/mount-log.ts";
import { modelRequestLimit } from "../daemon/request-limit.ts";
import { runLog } from "../daemon/run-log.ts";
import { planChild, type SpawnPorts } from "../plan/plan-spawn.ts";
import { driverHistory } from "../records/driver-history.ts";
import { driverSearch } from "../records/driver-search.ts";
import { serverAsker } from "./asker.ts";
import type { OpenedCron } from "./cron.ts";
import { guardedFolders } from "./guarded-folders.ts";
import { KernelEvents } from "./kernel-events.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

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
  const { open, history, search, projects, dataDirs } = records;
  const { clock, kernelId, kernelAlive, pids, children } = machine;
  const events = new KernelEvents();
  const kernel = new Kernel({
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
    history: driverHistory(history),
    search: (plugin, project) =>
      driverSearch(
        {
          index: search,
          userDataDir: user.dataDir,
          projects: () => projects.list(),
          dataDirs: () => dataDirs(),
        },
        plugin,
        project,
      ),
    schedule: cron.schedule,
    kernelAlive,
    async sweepPrograms() {
      await machine.sweep();
      events.onSweep();
    },
    planChild: (uuid, wish, child) => planChild(uuid, wish, child, planner),
    async planChildResume(uuid, child) {
      const { planChildResume } = await import("../plan/plan-resume.ts");
      return planChildResume(uuid, await history.byUuid(child), planner);
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
    mountLog: mountLog(user.dataDir, clock),
  });
  port.connect(kernel);
  machine.keepLockFileIf(() => kernel.lifecycle.handsOver);
  events.add(runLog({ identity: (pid) => kernel.processes.identity(pid), logger }));
  return { kernel, events };
}

/** Most runs have no limit of their network: the code is loaded with the first. */
async function resolve(name: string): Promise<string[]> {
  const { systemResolve } = await import("../../proxy/addresses.ts");
  return systemResolve(name);
}
