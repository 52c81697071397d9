/** Builds the server, part by part. */

import { tmpdir } from "node:os";
import { join } from "node:path";
import { daemonEnvironment, userEnv } from "../config/environment/environment.ts";
import type { Env } from "../config/environment/paths.ts";
import type { Project } from "../config/project/project.ts";
import type { Settings } from "../config/settings/settings.ts";
import type { ChildEffects } from "../kernel/lifetime/child-effects.ts";
import { lazy } from "../lib/caches.ts";
import type { Clock } from "../lib/clock.ts";
import { messageOf } from "../lib/error-detail.ts";
import { runShortProgram } from "../os/short-program.ts";
import type { SandboxProbe } from "../sandbox/sandbox.ts";
import { commit, version } from "../version.ts";
import { type OpenedCron, openCron } from "./boot/cron.ts";
import { type StartedKernel, startKernel } from "./boot/kernel.ts";
import { KernelPort } from "./boot/kernel-port.ts";
import { claimMachine, type Machine } from "./boot/machine.ts";
import type { BootOptions } from "./boot/options.ts";
import { makePlans, type Plans } from "./boot/plans.ts";
import { type OpenedProjects, openProjects } from "./boot/projects.ts";
import { openRecords, type Records } from "./boot/records.ts";
import type { Reporting } from "./boot/start-reporting.ts";
import type { ChangeFeed } from "./dashboard/change-feed.ts";
import type { SpawnPorts } from "./plan/plan-spawn.ts";
import type { BootedServer, DashboardRequest, OpenedDashboard, Services } from "./services.ts";

/** How long boot waits for the sweep of programs. A program may use its whole grace, and the first client waits. */
const SWEEP_WAIT_MS = 500;

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
      return keepsUnit(await records.history(), left, resumed, machine.kernelAlive);
    });
    const projects = closing(openProjects(options, machine));
    const planner = openPlanner(machine, records, projects, port);
    const cron = openCron({ options, machine, records, projects, spawn: planner, port });
    const reporting = await openReporting(options, machine, port);
    if (reporting) closing(reporting);
    const { callbacks = [], traces = false } = reporting ?? {};
    const started = startKernel(options, machine, records, projects, planner, cron, port, traces);
    for (const listener of callbacks) started.events.add(listener);
    const services = options.daemon
      ? closing(
          await (await import("./boot/services.ts")).startServices(
            ...([options, machine, records, planner, started, cron] as const),
          ),
        )
      : closing(commandServices(options, machine, records, planner, started, cron));
    await machine.swept(SWEEP_WAIT_MS);
    const page = closing(lazyDashboard(options, () => system, machine.clock));

    const { clock, children } = machine;
    const { workspaces, keys } = projects;
    const { history, collector, changes, worktrees } = records;
    const { close: _, planResumeIn: _own, ...parts } = services;
    const system: Services = {
      ...parts,
      kernel: started.kernel,
      history,
      collector,
      changes,
      worktrees,
      catalog: lazy(async () => {
        const { ProjectCatalog } = await import("./catalog/project-catalog.ts");
        return new ProjectCatalog({
          workspaces,
          clock,
          env,
          keys,
          children,
          mounts: started.kernel.mounts,
          promptParts: async (place) =>
            started.kernel.calls.promptParts((await services.planCall(place)).opts),
        });
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
      ...(options.daemon && { cron, dashboard: page.open, procFeed: page.feed }),
      logger,
    };
    if (options.daemon) await page.start();
    return { close, system };
  } catch (error) {
    await close();
    throw error;
  }
}

/** In a command nothing works beside requests: there is no init.yaml, and runs are recovered for a request only. */
function commandServices(
  options: BootOptions,
  machine: Machine,
  records: Records,
  planner: SpawnPorts,
  started: StartedKernel,
  cron: OpenedCron,
): Plans & Pick<Services, "recovery"> & { close(): Promise<void> } {
  const { user, env } = options;
  const ready = async (): Promise<string[]> => [];
  const plans = makePlans({
    user,
    planner,
    ready,
    keyNotice: records.keyNotice,
    endpoint: null,
    environment: daemonEnvironment(env),
    inMemory: () => undefined,
  });
  const { planResumeIn: planResume } = plans;
  cron.connect({ events: started.events, ready, planResume, ended: () => undefined });
  const opened = lazy(async () => {
    const { openRecovery } = await import("./boot/open-recovery.ts");
    return openRecovery(options, machine, records, started, planResume);
  });
  return {
    ...plans,
    recovery: { start: async () => (await opened()).recovery.start(), stop: () => undefined, busy: false },
    async close() {
      await cron.close();
      await (await opened.end())?.recovery.close();
    },
  };
}

/** `close` ends its server, if it was ever opened. */
function lazyDashboard({ user, settings, logger }: BootOptions, services: () => Services, clock: Clock) {
  let feed: ChangeFeed | undefined;
  const openFeed = async (): Promise<ChangeFeed> => {
    const { ChangeFeed } = await import("./dashboard/change-feed.ts");
    feed ??= new ChangeFeed(services(), clock);
    return feed;
  };
  const dashboard = lazy(async () => {
    const { Dashboard } = await import("./dashboard/dashboard.ts");
    return new Dashboard({
      services,
      clock,
      feed: await openFeed(),
      tokenFile: join(user.dataDir, "metrics-token"),
      settings: settings.own.dashboard ?? {},
      userEnv: () => userEnv(user.configDir),
    });
  });
  const open = async (request: DashboardRequest): Promise<OpenedDashboard> =>
    (await dashboard()).open(request);
  return {
    open,
    /** Opens it if the settings have its port. A failure is logged. */
    async start(): Promise<void> {
      if (settings.own.dashboard?.port === undefined) return;
      await open({ port: 0 }).catch((thrown) => logger.warn("dashboard", messageOf(thrown)));
    },
    feed: { open: openFeed, wake: () => feed?.wake() },
    async close(): Promise<void> {
      feed?.close();
      await (await dashboard.end())?.close();
    },
  };
}

const PROBE_MS = 10_000;

/** What works is remembered while the PATH leads to it; what does not may have been installed meanwhile. */
function sandboxPorts(): SpawnPorts["sandbox"] {
  let found: SandboxProbe | undefined;
  let isShown = false;
  return {
    async probe(env) {
      const { findBubblewrap, probeSandbox } = await import("../sandbox/sandbox.ts");
      if (!found?.works || found.program !== findBubblewrap(env)) found = await probeSandbox(env);
      return found;
    },
    isFirstNotice() {
      const isFirst = !isShown;
      isShown = true;
      return isFirst;
    },
  };
}

/** Opens the planner: what `planSpawn`, `planResume` and `planChild` need of the other parts. */
function openPlanner(
  { clock, children }: Machine,
  { projects, worktrees }: Records,
  { workspaces, keys }: OpenedProjects,
  port: KernelPort,
): SpawnPorts {
  /** Found out once, by a program in a namespace: the presence of a tool decides nothing. */
  const problem = lazy(async () => {
    const { networkProblem } = await import("../proxy/network-door.ts");
    return networkProblem(async (argv) => {
      const program = { argv, cwd: "/", env: {}, timeoutMs: PROBE_MS, maxChars: 300 };
      const place = { children, clock, spillDir: tmpdir() };
      const { code, stderr } = await runShortProgram(place, "network-probe", program);
      return { code, output: stderr };
    });
  });
  return {
    workspaces,
    clock,
    keys,
    parent(uuid) {
      const { processes } = port.kernel;
      const pid = processes.findPid(uuid);
      if (pid === undefined) return undefined;
      const requireEffects = (effects: ChildEffects): void => processes.requireEffects(pid, effects);
      return { pid, requireEffects, ...processes.inherited(pid) };
    },
    async models(choice, devices, place) {
      const { LIST_WAIT_MS, serviceModels } = await import("./catalog/probe-provider.ts");
      return serviceModels(choice, devices, place, { clock, children, waitMs: LIST_WAIT_MS });
    },
    worktrees,
    sandbox: sandboxPorts(),
    services: (project: Project, type: string) => port.kernel.mounts.services(project, type),
    remember: (project: Project) => projects.remember(project),
    networkProblem: problem,
  };
}

/**
 * The user's own variables and settings alone count: a run must not choose where it is reported. undefined: nothing is
 * counted, because nothing reads it.
 */
async function openReporting(
  options: BootOptions,
  machine: Machine,
  port: KernelPort,
): Promise<Reporting | undefined> {
  const { user, env, settings, logger, daemon = false } = options;
  const warn = (text: string): void => logger.warn("telemetry", text);
  const variables = { ...ofSetting(settings), ...otelIn(fileEnv(user.configDir, warn)), ...otelIn(env) };
  if (!daemon && Object.keys(variables).length === 0) return undefined;
  const { startReporting } = await import("./boot/start-reporting.ts");
  return startReporting(variables, options, machine, port);
}

function ofSetting({ own: { telemetry } }: Settings): Env {
  return otelIn({
    OTEL_EXPORTER_OTLP_ENDPOINT: telemetry?.endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: telemetry?.protocol,
    OTEL_SERVICE_NAME: telemetry?.service_name,
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: telemetry?.content === true ? "true" : undefined,
  });
}

/** The user's file may hold a key for the collector. If it can't be read, each run says so, too. */
function fileEnv(configDir: string, warn: (text: string) => void): Env {
  try {
    return userEnv(configDir);
  } catch (thrown) {
    warn(messageOf(thrown));
    return {};
  }
}

/** An empty variable counts as none, as the specification says. */
function otelIn(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => name.startsWith("OTEL_") && value));
}
