import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { join } from "node:path";
import { defaultSettings } from "../../src/config/settings/settings.ts";
import type { ResumeOptions } from "../../src/kernel/agents/run-resumer.ts";
import { createKernel, type Kernel } from "../../src/kernel/kernel.ts";
import type {
  AgentInfo,
  ChildRequest,
  KernelCallbacks,
  Limits,
  MountOpener,
  ProcInfo,
  ProviderChoice,
  SpawnOpts,
} from "../../src/kernel/types.ts";
import { type Clock, orAborted, realClock } from "../../src/lib/clock.ts";
import type { Children } from "../../src/os/children.ts";
import {
  type Device,
  type LLMEvent,
  type LLMRequest,
  type MountType,
  type OpenContext,
  type Services,
  SyscallError,
  type VFSFile,
} from "../../src/plugin/index.ts";
import type { LiveEvent } from "../../src/run/live-event.ts";
import { driverHistory, driverSearch } from "../../src/server/records/driver-search.ts";
import { History } from "../../src/server/records/history.ts";
import { type FsPort, realFs } from "../../src/store/files/fs-port.ts";
import { RecordKey } from "../../src/store/runs/record-key.ts";
import { RunStore } from "../../src/store/runs/run-store.ts";
import { SearchIndex } from "../../src/store/search/search-index.ts";
import { DeviceRegistry, Namespace } from "../../src/vfs/namespace.ts";
import { failAtTheEnd } from "./at-the-end.ts";
import { CountingClock } from "./counting-clock.ts";
import { settled } from "./fake-clock.ts";
import { memoryFolder } from "./memory-folder.ts";
import { programsIn } from "./programs.ts";

/** In place of the rest of an answer: nothing follows until the call is cancelled. */
export const SILENCE = "silence";
type Answer = (LLMEvent | typeof SILENCE)[];

/** What the scripted model does with one request: the events of its answer, or a refusal. */
export type Model = (request: LLMRequest, signal: AbortSignal) => Answer | Promise<Answer>;

export const usage = { input_tokens: 10, output_tokens: 5, cached_tokens: 0 };

/** An answer without calls: it ends the run. */
export function says(text: string): LLMEvent[] {
  return [
    { type: "text_delta", text },
    { type: "usage", usage },
    { type: "stop", reason: "end_turn" },
  ];
}

let ids = 0;

/** An answer that calls these tools. */
export function calls(...wanted: [name: string, input: Record<string, unknown>][]): LLMEvent[] {
  return [
    ...wanted.map(
      ([name, input]): LLMEvent => ({ type: "tool_call", call: { id: `call-${++ids}`, name, input } }),
    ),
    { type: "usage", usage },
    { type: "stop", reason: "tool_calls" },
  ];
}

/** Plays answers one after the other; each may look at its request. */
export function script(...answers: (Answer | ((request: LLMRequest) => Answer))[]): Model {
  let at = 0;
  return (request) => {
    const answer = answers[at++];
    if (!answer)
      throw new SyscallError("DRIVER", `The script has ${answers.length} answers and was asked for ${at}.`);
    return typeof answer === "function" ? answer(request) : answer;
  };
}

/** Answers each intent's turns in order. */
export function byIntent(book: Record<string, Model[]>): Model {
  return (request, signal) => {
    const turn = request.messages.filter(({ role }) => role === "assistant").length;
    const answer = book[request.intent]?.[turn];
    if (!answer) throw new SyscallError("DRIVER", `Nothing to say to ${request.intent}, turn ${turn}.`);
    return answer(request, signal);
  };
}

/** Events that a test has no callback for are dropped. */
function allCallbacks(given: Partial<KernelCallbacks>): KernelCallbacks {
  return {
    onSpawn: (...args) => given.onSpawn?.(...args),
    onStep: (...args) => given.onStep?.(...args),
    onComplete: (...args) => given.onComplete?.(...args),
    onError: (...args) => given.onError?.(...args),
  };
}

/** A model that does not answer before it is cancelled. */
export const silent: Model = (_request, signal) => cancelled(signal);

function cancelled(signal: AbortSignal): Promise<never> {
  return orAborted(new Promise<never>(() => {}), signal).catch(() => {
    throw new SyscallError("CANCELLED", "cancelled");
  });
}

/** A device that answers what `run` makes of its input. */
export function toolDevice(
  name: string,
  run: (
    input: Record<string, unknown>,
    signal: AbortSignal,
    context: OpenContext,
  ) => string | Promise<string>,
  more: Partial<NonNullable<Device["tools"]>[number]> = {},
): Device {
  return {
    tools: [{ name, description: name, input: { type: "object" }, ...more }],
    factory: (_subpath, _flags, context) => {
      let result = "";
      return {
        async write(data, signal) {
          result = await run(JSON.parse(String(data)), signal, context);
        },
        async read(max) {
          const piece = result.slice(0, max);
          result = result.slice(max);
          return piece;
        },
        async close() {},
        async stat() {
          return { name, size: result.length, isDevice: true, devicePath: "/dev/test" };
        },
      };
    },
  };
}

/** The process record at the end, and the events until then. */
interface Followed {
  info: ProcInfo;
  events: LiveEvent[];
}

interface HarnessOptions {
  model: Model;
  devices?: Record<string, Device>;
  needs?: Record<string, (keyof Services)[]>;
  /** What its driver says that it can do. */
  can?: { effort?: boolean; images?: boolean };
  /** What can be mounted, with every service. */
  mounts?: readonly MountType[];
  /** How long a mount without a user stays open, as one of a stock plugin does in the daemon. */
  mountsKeptMs?: number;
  clock?: Clock;
  limits?: Partial<Limits>;
  fs?: FsPort;
  /** Its folder: that of the kernel before it on the same disk. A new one by default. */
  dir?: string;
  /** Whether another kernel of this id is alive; none is by default. */
  kernelAlive?: (id: string) => boolean;
  callbacks?: Partial<KernelCallbacks>;
  /** As where there is a waker. */
  wakes?: boolean;
  mailed?(uuid: string): void;
  /** Awaited before a suspended child is resumed. */
  beforeChildResume?(): Promise<void>;
  /** What children that an agent spawns are made of, beside what all have here. */
  planChild?(wish: ChildRequest): Promise<Partial<SpawnOpts> & { agent?: AgentInfo }>;
}

/** Nothing is tried again, and what does not end by itself is ended soon. */
const LIMITS: Limits = {
  ...defaultSettings().values,
  model_retries: 0,
  grace: 1_000,
  check_timeout: 60_000,
  check_attempts: 1,
  tool_result_chars: 100_000,
};

/** A whole kernel on a temporary project, with a scripted model and real records and programs. */
export class KernelHarness {
  readonly dir: string;
  readonly project: string;
  readonly dataDir: string;
  readonly kernel: Kernel;
  readonly children: Children;
  readonly runs: RunStore;
  readonly warnings: string[] = [];
  readonly requests: LLMRequest[] = [];
  leases = 0;
  openFiles = 0;
  #pid = 0;
  /** Of the runs that were spawned here, from their beginning: one may end before a test comes to follow it. */
  readonly #followed = new Map<number, Promise<Followed>>();
  readonly #o: HarnessOptions;
  readonly #search = new SearchIndex({
    key: RecordKey.temporary(),
    warn: (text) => this.warnings.push(text),
  });
  /** Every timer of the kernel goes through it. */
  readonly clock: CountingClock;

  constructor(options: HarnessOptions) {
    this.#o = options;
    this.dir = options.dir ?? realpathSync(mkdtempSync(join(memoryFolder, "rnix-kernel-")));
    this.project = join(this.dir, "project");
    this.dataDir = join(this.project, ".rnix/data");
    this.clock = new CountingClock(options.clock ?? realClock);
    mkdirSync(this.project, { recursive: true });
    const fs = options.fs ?? realFs;
    this.runs = new RunStore(this.dataDir, fs);
    this.children = programsIn(this.dir);
    this.kernel = createKernel({
      version: "test",
      kernelId: "test",
      platform: "test",
      userDataDir: join(this.dir, "user"),
      guarded: [],
      clock: this.clock,
      random: () => 0.5,
      uuid: () => Bun.randomUUIDv7(),
      pids: { next: () => ++this.#pid },
      children: this.children,
      runs: () => this.runs,
      history: driverHistory(
        new History({ dataDirs: () => [this.dataDir], open: () => this.runs, kernelAlive: () => true }),
      ),
      search: (plugin, project) =>
        driverSearch(
          {
            index: this.#search,
            userDataDir: join(this.dir, "user"),
            projects: () => [],
            dataDirs: () => [],
          },
          plugin,
          project,
        ),
      mountsKeptMs: options.mountsKeptMs,
      kernelAlive: (id) => options.kernelAlive?.(id) ?? false,
      sweepPrograms: async () => {},
      planChild: async (_parent, wish) => {
        const { agent = null, ...more } = (await options.planChild?.(wish)) ?? {};
        return { agent, opts: this.opts(more), notices: [] };
      },
      planChildResume: async () => {
        await options.beforeChildResume?.();
        return { agent: null, opts: this.opts(), notices: [] };
      },
      callbacks: options.callbacks && allCallbacks(options.callbacks),
      wakes: options.wakes,
      mailed: options.mailed,
      log: (_level, source, text) => this.warnings.push(`${source}: ${text}`),
    });
  }

  async spawn(
    intent: string,
    more: Partial<SpawnOpts> = {},
    agent: AgentInfo | null = null,
  ): Promise<number> {
    const pid = await this.kernel.processes.spawn(intent, agent, this.opts(more));
    const following = this.#attach(pid);
    following.catch(() => {}); // The watcher gets this error.
    this.#followed.set(pid, following);
    return pid;
  }

  opts(more: Partial<SpawnOpts> = {}): SpawnOpts & { provider: ProviderChoice } {
    this.leases++;
    return {
      project: { id: "p", dir: this.project, dataDir: this.dataDir, trusted: true },
      devices: {
        namespace: this.#namespace(),
        mounts: this.#mounts(),
        versions: {},
        release: () => void this.leases--,
      },
      cwd: this.project,
      env: { PATH: process.env.PATH ?? "/usr/bin:/bin" },
      ...more,
      provider: more.provider ?? this.#provider(),
      limits: { ...LIMITS, ...this.#o.limits, ...more.limits },
    };
  }

  /** Spawns, and follows to the end. */
  async run(
    intent: string,
    more: Partial<SpawnOpts> = {},
    agent: AgentInfo | null = null,
  ): Promise<Followed> {
    return this.follow(await this.spawn(intent, more, agent));
  }

  /** Resumes a run, and follows it to the end. */
  async resumed(uuid: string, o: ResumeOptions = {}, more: Partial<SpawnOpts> = {}): Promise<Followed> {
    const { pid } = await this.kernel.lifecycle.resume(uuid, null, this.opts(more), o);
    return this.follow(pid);
  }

  /** The record of a run; fails if there is none. */
  async recordOf(uuid: string): Promise<ProcInfo> {
    const info = await this.runs.info(uuid);
    if (!info) throw new Error(`There is no record of run ${uuid}.`);
    return info;
  }

  /** To the end, which may have been: of a run that was spawned here. */
  follow(pid: number): Promise<Followed> {
    return this.#followed.get(pid) ?? this.#attach(pid);
  }

  async #attach(pid: number): Promise<Followed> {
    const events: LiveEvent[] = [];
    for await (const event of this.kernel.attach(pid)) events.push(event);
    const last = events.at(-1);
    if (last?.event !== "complete") throw new Error(`the run of PID ${pid} ended without complete`);
    return { info: last.info, events };
  }

  /** Ends everything and fails when something is left. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel.shutdown({ now: true });
    await this.#search.close();
    await settled(); // What was cut off has its turn to clean up.
    const left = {
      ...this.kernel.resourceCounts(),
      leases: this.leases,
      files: this.openFiles,
      timers: this.clock.pending,
    };
    await this.children.close();
    rmSync(this.dir, { recursive: true, force: true });
    if (Object.values(left).some((count) => count !== 0))
      failAtTheEnd(`left behind: ${JSON.stringify(left)}`);
  }

  #provider(): ProviderChoice {
    return {
      name: "scripted",
      device: "/dev/llm/scripted",
      model: "m",
      config: {},
      gateKey: "scripted",
      because: "test",
      secret: async () => "key",
    };
  }

  #mounts(): ReadonlyMap<string, MountOpener> {
    const own = { plugin: "test", isStock: true, needs: ["exec", "store"], config: undefined } as const;
    return new Map((this.#o.mounts ?? []).map((type) => [type.type, { ...own, type }]));
  }

  #namespace(): Namespace {
    const registry = new DeviceRegistry();
    const devices: Record<string, Device> = { ...this.#o.devices, "/dev/llm/scripted": this.#modelDevice() };
    for (const [path, device] of Object.entries(devices)) {
      registry.register({
        path,
        device: this.#counted(device),
        plugin: "test",
        layer: "stock",
        needs: this.#o.needs?.[path] ?? [],
      });
    }
    return new Namespace([registry]);
  }

  #counted(device: Device): Device {
    return {
      ...device,
      factory: async (...args) => {
        const file = await device.factory(...args);
        this.openFiles++;
        const close = file.close.bind(file);
        file.close = async () => {
          this.openFiles--;
          await close();
        };
        return file;
      },
    };
  }

  #modelDevice(): Device {
    return {
      factory: (): VFSFile => {
        let events: Answer = [];
        return {
          write: async (data, signal) => {
            const request: LLMRequest = JSON.parse(String(data));
            this.requests.push(request);
            events = [...(await this.#o.model(request, signal))];
          },
          read: async (_max, signal) => {
            const event = events.shift();
            if (event === SILENCE) return cancelled(signal);
            return event ? JSON.stringify(event) : "";
          },
          close: async () => {},
          stat: async () => ({
            name: "scripted",
            size: 0,
            isDevice: true,
            devicePath: "/dev/llm/scripted",
            ...this.#o.can,
          }),
        };
      },
    };
  }
}
