import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Server as NetServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "../../../src/client/client.ts";
import { overStream } from "../../../src/client/session.ts";
import { defaultSettings } from "../../../src/config/settings/settings.ts";
import type { SpawnOpts } from "../../../src/kernel/types.ts";
import { type Clock, realClock } from "../../../src/lib/clock.ts";
import { type Logger, loggerTo } from "../../../src/lib/logger.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { ProcRef, SpawnRequest } from "../../../src/protocol/methods.ts";
import type { Catalog } from "../../../src/server/catalog/project-catalog.ts";
import type { ByteStream } from "../../../src/server/connection/connection.ts";
import { descriptorOf, listen } from "../../../src/server/daemon/socket.ts";
import { memoryPair } from "../../../src/server/embedded-server.ts";
import { Collector } from "../../../src/server/records/collector.ts";
import { History } from "../../../src/server/records/history.ts";
import { RunChanges } from "../../../src/server/records/run-changes.ts";
import type { InitService } from "../../../src/server/recovery/init-service.ts";
import { Server } from "../../../src/server/server.ts";
import type { Host, Services } from "../../../src/server/services.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import { Namespace } from "../../../src/vfs/namespace.ts";
import { FakeKernel } from "./fake-kernel.ts";

/** A folder of its own, removed with the scope. */
export class TempDir implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), "rnix-server-"));

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

export interface Fixture extends AsyncDisposable {
  dir: string;
  kernel: FakeKernel;
  server: Server;
  system: Services;
  logged: string[];
  /** What `host.stop` was called with. */
  stops: boolean[];
  connect(): Promise<ByteStream>;
  /** A client of its own. `unit`: its claim of the run that it belongs to. */
  client(unit?: string): Promise<Client>;
  /** Begins a run that nobody follows. */
  detached(intent?: string): Promise<ProcRef>;
}

/** A request that the fake system grants without notices. */
export const RUN: SpawnRequest = { intent: "run", cwd: "/w", env: {}, trust: true };

export const TRANSPORTS = ["socket", "memory"] as const;
type Transport = (typeof TRANSPORTS)[number];

/** The server with a fake kernel behind it, over a real Unix socket or an in-memory pair. */
export async function serve(
  transport: Transport = "socket",
  o: { clock?: Clock; stallMs?: number } = {},
): Promise<Fixture> {
  const dir = new TempDir();
  const runs = new RunStore(dir.path);
  const kernel = new FakeKernel(runs);
  const logged: string[] = [];
  const stops: boolean[] = [];
  const system = fakeSystem(dir.path, kernel, runs, {
    clock: o.clock ?? realClock,
    logger: loggerTo((_level, _source, text) => logged.push(text)),
    host: {
      socket: transport === "socket" ? "/run/rnix.sock" : "",
      log: "",
      connections: () => server.connections,
      loopDelay: () => ({ p50: 0, max: 0 }),
      stop: (now) => void stops.push(now),
    },
  });
  const server = new Server(system, { stallMs: o.stallMs });
  const wire = transport === "socket" ? await overSocket(dir.path, server) : overMemory(server);
  const client = async (unit?: string) => new Client(overStream(await wire.connect()), { unit });
  return {
    dir: dir.path,
    kernel,
    server,
    system,
    logged,
    stops,
    connect: wire.connect,
    client,
    detached: async (intent = "run") =>
      (await (await client()).open("spawn", { ...RUN, intent, detach: true })).answer,
    async [Symbol.asyncDispose]() {
      for (const info of kernel.processes.listProcs())
        await kernel.finish(info.pid, { code: 137, reason: "killed" });
      wire.stop();
      await server.close();
      dir[Symbol.dispose]();
    },
  };
}

export function fakeSystem(
  dataDir: string,
  kernel: FakeKernel,
  runs: RunStore,
  o: { clock: Clock; logger: Logger; host: Host; init?: InitService },
): Services {
  const history = new History({ dataDirs: () => [dataDir], open: () => runs, kernelAlive: () => true });
  const collector = new Collector({
    dataDirs: () => [dataDir],
    open: () => runs,
    kernelAlive: () => true,
    limits: async () => defaultSettings().values,
    lockPath: join(dataDir, "gc", "lock"),
    lastPath: join(dataDir, "gc", "last.json"),
    clock: o.clock,
  });
  return {
    kernel,
    history: async () => history,
    collector: async () => collector,
    changes: async () =>
      new RunChanges({
        children: { exec: () => Promise.reject(new SyscallError("UNAVAILABLE", "no programs")) },
        env: {},
        clock: o.clock,
        open: () => runs,
        scratch: join(dataDir, "git"),
      }),
    worktrees: () => Promise.reject(new SyscallError("UNAVAILABLE", "no worktrees")),
    catalog: async () => EMPTY,
    clock: o.clock,
    identity: { version: "0.0.0", build: "test", startedAtMs: 1_767_225_600_000 },
    host: o.host,
    init: o.init ?? NO_INIT,
    cron: { start: () => undefined, busy: false },
    recovery: { start: async () => undefined, stop: () => undefined, busy: false },
    logger: o.logger,
    async plan(request) {
      if (request.agent === "unknown") throw new SyscallError("NOT_FOUND", 'There is no agent "unknown".');
      if (request.agent === "broken") throw new TypeError("a defect");
      return {
        agent: null,
        opts: optsOf(request.cwd ?? dataDir),
        notices: request.trust ? [] : ["plugins are not trusted"],
      };
    },
    planCall: async () => {
      throw new SyscallError("UNAVAILABLE", "The fake system has no devices.");
    },
    planModel: async () => {
      throw new SyscallError("UNAVAILABLE", "The fake system has no models.");
    },
    planAdopt: async ({ info }) => ({ agent: null, opts: optsOf(info.cwd), notices: ["as it is today"] }),
    planResume: async ({ info }) => ({ agent: null, opts: optsOf(info.cwd), notices: ["as it was"] }),
  };
}

/** Nothing is to be brought up. */
export const NO_INIT: InitService = {
  start: async () => undefined,
  started: async () => undefined,
  starting: false,
  ready: async () => [],
  status: () => ({ units: [], problems: [] }),
};

export function optsOf(cwd: string): SpawnOpts {
  const unused = (): never => {
    throw new Error("the fake kernel opens nothing");
  };
  return {
    project: { id: "p", dir: cwd, dataDir: cwd, trusted: false },
    devices: { namespace: new Namespace([]), versions: {}, release: () => undefined },
    provider: {
      name: "fake",
      device: "/dev/llm/fake",
      model: "m",
      config: {},
      gateKey: "fake",
      because: "--provider",
      secret: unused,
    },
    cwd,
    env: {},
    limits: defaultSettings().values,
  };
}

const EMPTY: Catalog = {
  projectDir: (cwd) => cwd,
  plugins: async () => ({ plugins: [] }),
  mcpServers: async () => ({ servers: [], problems: [] }),
  commands: async () => ({ commands: [], notices: [] }),
  tools: async () => ({ tools: [], prompt: null, diagnostics: [] }),
  agents: async () => ({ agents: [], diagnostics: [] }),
  skills: async () => ({ skills: [], diagnostics: [] }),
  providers: async () => ({ providers: [], diagnostics: [] }),
  models: async () => ({ models: [], chosen: null, diagnostics: [] }),
  tryModel: async (_project, { model }) => ({ model, text: "OK", tokens: 2, cost_usd: null, ms: 1 }),
};

interface Wire {
  connect(): Promise<ByteStream>;
  stop(): void;
}

async function overSocket(dir: string, server: Server): Promise<Wire> {
  const path = join(dir, "s.sock");
  const net: NetServer = await listen(path, (stream) => server.accept(stream, () => descriptorOf(stream)));
  return {
    connect: () =>
      new Promise((resolve, reject) => {
        const stream = connect({ path, allowHalfOpen: true });
        stream.once("connect", () => resolve(stream));
        stream.once("error", reject);
      }),
    stop: () => net.close(),
  };
}

function overMemory(server: Server): Wire {
  return {
    async connect() {
      const [ours, theirs] = memoryPair();
      server.accept(theirs);
      return ours;
    },
    stop: () => undefined,
  };
}
