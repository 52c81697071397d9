/** Builds the server, part by part. */

import { commit, version } from "../version.ts";
import { openCron } from "./boot/cron.ts";
import { lazyDashboard } from "./boot/dashboard.ts";
import { startKernel } from "./boot/kernel.ts";
import { KernelPort } from "./boot/kernel-port.ts";
import { claimMachine } from "./boot/machine.ts";
import type { BootOptions } from "./boot/options.ts";
import { openPlanner } from "./boot/planner.ts";
import { openProjects } from "./boot/projects.ts";
import { openRecords } from "./boot/records.ts";
import { openReporting } from "./boot/reporting.ts";
import { startServices } from "./boot/services.ts";
import { ProjectCatalog } from "./catalog/project-catalog.ts";
import type { BootedServer, Services } from "./services.ts";

/** How long boot waits for the sweep of programs. A program may use its whole grace, and the first client waits. */
const SWEEP_WAIT_MS = 500;

/** Builds the server, part by part; `close` ends the parts in reverse order. */
export async function boot(options: BootOptions): Promise<BootedServer> {
  const { env, host, logger } = options;
  const opened: { close(): Promise<void> }[] = [];
  const closing = <T extends { close(): Promise<void> }>(part: T): T => {
    opened.push(part);
    return part;
  };
  const close = async (): Promise<void> => {
    for (const part of opened.splice(0).reverse()) await part.close();
  };
  try {
    const port = new KernelPort();
    const machine = closing(claimMachine(options));
    const records = closing(openRecords(options, machine, port));
    machine.keepUnits(async (left, resumed) => {
      const { keepsUnit } = await import("./recovery/unit-keeper.ts");
      return keepsUnit(records.history, left, resumed, machine.kernelAlive);
    });
    const projects = closing(openProjects(options, machine));
    const planner = openPlanner(machine, records, projects, port);
    const cron = openCron({ options, machine, records, projects, spawn: planner, port });
    const reporting = await openReporting(options, machine, port);
    if (reporting) closing(reporting);
    const { callbacks = [], traces = false } = reporting ?? {};
    const started = startKernel(options, machine, records, projects, planner, cron, port, traces);
    for (const listener of callbacks) started.events.add(listener);
    const services = closing(startServices(options, machine, records, planner, started, cron));
    await machine.swept(SWEEP_WAIT_MS);
    const page = closing(lazyDashboard(options, () => system, machine.clock));

    const { clock, children } = machine;
    const { workspaces, keys } = projects;
    const { close: _, ...parts } = services;
    const system: Services = {
      ...parts,
      kernel: started.kernel,
      history: records.history,
      collector: records.collector,
      changes: records.changes,
      worktrees: records.worktrees,
      catalog: new ProjectCatalog({
        workspaces,
        clock,
        env,
        keys,
        children,
        mounts: started.kernel.mounts,
        promptParts: async (place) => started.kernel.calls.promptParts((await services.planCall(place)).opts),
      }),
      schedules: cron.schedule({
        project: { id: "user", dir: options.user.home, dataDir: options.user.dataDir, trusted: false },
        cwd: options.user.home,
        env: {},
        run: null,
        jobId: null,
      }),
      otherKernels: () =>
        machine.locks.all().some((id) => id !== machine.kernelId && machine.kernelAlive(id)),
      searchRuns: (query) =>
        records.search.ask("find", { ...query, documents: [], runs: records.dataDirs() }),
      clock,
      identity: { version, build: commit, startedAtMs: clock.now() },
      host,
      ownerOf: (pid) => children.ownerOf(pid),
      strays: () => children.orphans(),
      ...(reporting && { instruments: reporting.instruments }),
      dashboard: options.daemon ? page.open : undefined,
      procFeed: options.daemon ? page.feed : undefined,
      logger,
    };
    if (options.daemon) await page.start();
    return { close, system };
  } catch (error) {
    await close();
    throw error;
  }
}
