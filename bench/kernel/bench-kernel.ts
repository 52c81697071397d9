import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaultSettings } from "../../src/config/settings/settings.ts";
import { createKernel, type Kernel } from "../../src/kernel/kernel.ts";
import type { Process } from "../../src/kernel/process/process.ts";
import type { ProviderChoice, SpawnOpts } from "../../src/kernel/types.ts";
import { realClock } from "../../src/lib/clock.ts";
import { Children } from "../../src/os/children.ts";
import {
  type Device,
  type LLMEvent,
  type Search,
  SyscallError,
  type VFSFile,
} from "../../src/plugin/index.ts";
import { RunStore } from "../../src/store/runs/run-store.ts";
import { DeviceRegistry, Namespace } from "../../src/vfs/namespace.ts";

/** Takes everything and gives nothing: what a syscall on it costs is the kernel's. */
export function nullFile(): VFSFile {
  return {
    async write() {},
    async read() {
      return "";
    },
    async close() {},
    async stat() {
      return { name: "null", size: 0, isDevice: true, devicePath: NULL };
    },
  };
}

export const NULL = "/dev/null";
const MODEL = "/dev/llm/scripted";
const INTENT = "go";

const SCRIPTED: ProviderChoice = {
  name: "scripted",
  device: MODEL,
  model: "m",
  config: {},
  gateKey: "scripted",
  because: "bench",
  secret: async () => "",
};

/** One answer, as a model device returns it; `nth` is its number in its run, from 1. */
export type Answer = (signal: AbortSignal, nth: number) => Promise<readonly LLMEvent[]> | readonly LLMEvent[];

/** Ends a run with its first step. */
export const done: readonly LLMEvent[] = [
  { type: "text_delta", text: "done" },
  { type: "usage", usage: { input_tokens: 10, output_tokens: 5, cached_tokens: 0 } },
  { type: "stop", reason: "end_turn" },
];

/** No bench of the kernel searches. */
export function noSearch(): Search {
  return { sources: async () => [], put: async () => {}, find: async () => ({ hits: [], pending: 0 }) };
}

/** The whole kernel on a project of its own: real records on disk, the null device, a model that is a function. */
export class BenchKernel implements AsyncDisposable {
  readonly kernel: Kernel;
  readonly #dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-bench-kernel-")));
  readonly #project = join(this.#dir, "project");
  readonly children: Children;
  readonly runs: RunStore;
  readonly #namespace: Namespace;
  #pid = 0;

  /** `more`: devices, beside the null device and the model. */
  constructor(answer: Answer = () => done, more: Record<string, Device> = {}) {
    mkdirSync(this.#project, { recursive: true });
    this.runs = new RunStore(join(this.#project, ".rnix/data"));
    this.children = new Children({
      ledgerDir: join(this.#dir, "children"),
      kernelId: "bench",
      graceMs: 1_000,
      memoryBytes: 65_536,
      diskBytes: 1 << 24,
    });
    this.#namespace = namespaceOf({
      [NULL]: { factory: () => nullFile() },
      [MODEL]: modelDevice(answer),
      ...more,
    });
    this.kernel = createKernel({
      version: "bench",
      kernelId: "bench",
      platform: "bench",
      userDataDir: join(this.#dir, "user"),
      guarded: [],
      clock: realClock,
      random: Math.random,
      uuid: () => Bun.randomUUIDv7(),
      pids: { next: () => ++this.#pid },
      children: this.children,
      runs: () => this.runs,
      history: { runs: async () => [], steps: async () => [] },
      search: noSearch,
      kernelAlive: () => false,
      sweepPrograms: async () => {},
      planChild: noChild,
      planChildResume: noChild,
    });
  }

  /** An agent: it reasons, and ends with its model's answer. */
  agent(provider: Partial<ProviderChoice> = {}): Promise<number> {
    return this.kernel.processes.spawn(INTENT, null, this.#opts({ ...SCRIPTED, ...provider }));
  }

  /** A process that does this and ends. */
  async process(task: (proc: Process) => Promise<void>): Promise<number> {
    return await this.kernel.processes.spawnTask(
      "command",
      async (proc) => {
        await task(proc);
        return { kind: "finished" };
      },
      INTENT,
      null,
      this.#opts(null),
    );
  }

  /** Runs this as a process, to its end. What it throws ends the benchmark. */
  async as<T>(task: (proc: Process) => Promise<T>): Promise<T> {
    const result = Promise.withResolvers<T>();
    const pid = await this.process((proc) => task(proc).then(result.resolve, result.reject));
    const value = await result.promise;
    await this.kernel.processes.wait(pid);
    return value;
  }

  /** The text of its conversation before anything was said: the prompt's head, and the intent. */
  async conversationBytes(pid: number): Promise<number> {
    const meta = await this.runs.meta(this.kernel.processes.info(pid).uuid);
    return Buffer.byteLength(meta?.system_prompt ?? "") + INTENT.length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kernel.shutdown({ now: true });
    await this.children.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }

  #opts(provider: ProviderChoice | null): SpawnOpts {
    return {
      project: {
        id: "bench",
        dir: this.#project,
        dataDir: join(this.#project, ".rnix/data"),
        trusted: true,
      },
      devices: { namespace: this.#namespace, versions: {}, release: () => undefined },
      cwd: this.#project,
      env: { PATH: "/usr/bin:/bin" },
      provider,
      limits: { ...defaultSettings().values, tool_timeout: 600_000, events_per_run: 100_000_000 },
    };
  }
}

async function noChild(): Promise<never> {
  throw new SyscallError("UNAVAILABLE", "No agent spawns another one here.");
}

function namespaceOf(devices: Record<string, Device>): Namespace {
  const registry = new DeviceRegistry();
  for (const [path, device] of Object.entries(devices)) {
    registry.register({ path, device, plugin: "bench", layer: "stock", needs: [] });
  }
  return new Namespace([registry]);
}

function modelDevice(answer: Answer): Device {
  return {
    factory: (): VFSFile => {
      let events: LLMEvent[] = [];
      let nth = 0;
      return {
        async write(_request, signal) {
          events = [...(await answer(signal, ++nth))];
        },
        async read() {
          const event = events.shift();
          return event ? JSON.stringify(event) : "";
        },
        async close() {},
        async stat() {
          return { name: "scripted", size: 0, isDevice: true, devicePath: MODEL };
        },
      };
    },
  };
}
