/**
 * The plugin contract as tests. Every stock plugin's test file calls
 *
 *   describePlugin("fs", () => import("../../plugins/fs.ts"), {
 *     setup: async (dir) => { … files the operations work on …; return { store, secret, config }; },
 *     operations: [
 *       { title: "reads a file", device: "/dev/fs", input: { op: "read_file", path: "a.txt" },
 *         answer: (text) => expect(text).toContain("hello") },
 *       { title: "names a missing file", device: "/dev/fs", input: { … }, error: "NOT_FOUND" },
 *     ],
 *     unknown: "/dev/fs/no/such/file", // Leave out `unknown` and `endless` where there is no such thing.
 *     endless: { device: "/dev/shell", input: { op: "bash", command: "sleep 60" } },
 *   });
 *
 * once: the suite runs everything in the kernel's thread and again with the same plugin in a Worker.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { startProgram } from "../../../src/os/channel.ts";
import { PluginProcess } from "../../../src/plugin/host/plugin-process.ts";
import { pluginModule } from "../../../src/plugin/host/shape.ts";
import { staticCheck } from "../../../src/plugin/host/static-check.ts";
import {
  type Code,
  type Data,
  type Mounted,
  O_RDONLY,
  O_RDWR,
  O_WRONLY,
  type OpenContext,
  type OpenFlag,
  type Plugin,
  SyscallError,
} from "../../../src/plugin/index.ts";
import { DeviceRegistry } from "../../../src/vfs/namespace.ts";
import { PATIENT } from "../../plugin/support/patience.ts";
import { failure } from "../failure.ts";
import { openContext } from "../open-context.ts";
import { testContext } from "./context.ts";
import { ABORT_MS, exchange, expectCode, expectStat, open, settled, text } from "./vfs-file.ts";

const PLUGINS = resolve(import.meta.dir, "../../../plugins");
const FLAGS: OpenFlag[] = [O_RDONLY, O_WRONLY, O_RDWR];

interface Operation {
  /** A sentence on what it shows. */
  title: string;
  /** The path that is opened: the device's, or one below a prefix device. */
  device: string;
  flags?: OpenFlag;
  /** Objects are written as JSON; null writes nothing and only reads. */
  input: object | Data | null;
  /** Looks at the whole answer. */
  answer?: (answer: string, dir: string) => void | Promise<void>;
  /** The operation fails with this code, at open, write or read. */
  error?: Code;
}

export interface PluginCases {
  /** Absolute path of the entry; `plugins/<name>.ts` or `plugins/<name>/index.ts` by default. */
  entry?: string;
  /**
   * Makes what the operations work on, in a temporary folder of their own; returns services and config. A plugin that
   * needs `exec` has it already: its programs really run.
   */
  setup?: (dir: string) => Partial<OpenContext> | Promise<Partial<OpenContext>>;
  /** Undoes what setup did outside the folder. */
  teardown?: () => void | Promise<void>;
  operations: Operation[];
  /** A path below a prefix device where nothing is; a reason when the device answers every path. */
  unknown?: string | { skip: string };
  /** What its `mount` opens. */
  mount?: MountCases;
  /** An operation that does not end by itself, where the driver has one: it is aborted in its middle. */
  endless?: Pick<Operation, "device" | "input" | "flags">;
}

interface MountCases {
  /** What `open` is given; only data. */
  config(dir: string): object;
  /** Those in `device` are places below the mount point. */
  operations: Operation[];
  /** Configs that can't be opened, and with which code. */
  refused: { title: string; config(dir: string): object; error: Code }[];
  /** A config that `open` never comes to an end with. */
  endless?(dir: string): object;
}

interface Loaded {
  plugin: Plugin;
  end(): Promise<void>;
}

/** A plugin, and the context of its calls in a folder of their own. */
interface Stage {
  dir: string;
  plugin: Plugin;
  context: OpenContext;
}

export function describePlugin(name: string, load: () => Promise<unknown>, cases: PluginCases): void {
  const entry = cases.entry ?? stockEntry(name);
  describe(`plugin ${name}, imported`, () => describeModule(name, entry, load));
  describe(`plugin ${name}, in the kernel's thread`, () => {
    const here = async (): Promise<Loaded> => ({
      plugin: pluginModule(name, await load()),
      end: async () => {},
    });
    describeDevices(cases, here);
    if (cases.mount) describeMount(cases, cases.mount, here);
  });
  describe(`plugin ${name}, in a Worker`, () => {
    const there = async (): Promise<Loaded> => {
      const { code, problems } = await staticCheck(entry);
      expect(problems).toEqual([]);
      const worker = await PluginProcess.start({
        name,
        entry,
        code: code ?? "",
        limits: PATIENT,
        start: startProgram,
      });
      return { plugin: worker.plugin, end: () => worker.end() };
    };
    describeDevices(cases, there);
    if (cases.mount) describeMount(cases, cases.mount, there);
  });
}

function describeModule(name: string, entry: string, load: () => Promise<unknown>): void {
  test("opens nothing, leaves nothing running and loads no library", async () => {
    const child = Bun.spawn([process.execPath, "--no-install", "-e", IMPORT_PROBE, entry], {
      cwd: resolve(PLUGINS, ".."),
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    expect(err).toBe("");
    expect(JSON.parse(out)).toEqual({ opened: 0, libraries: [] });
  });

  test("fits the contract's shape, and its tools' schemas can be read and hold the fields they name", async () => {
    const plugin = pluginModule(name, await load());
    for (const device of Object.values(plugin.devices ?? {})) {
      for (const tool of device.tools ?? []) {
        const schema = z.fromJSONSchema({ ...tool.input });
        expect(schema.safeParse("not an object").success, `${tool.name} takes an object`).toBe(false);
        const fields = Object.keys(
          z.object({ properties: z.record(z.string(), z.unknown()) }).parse(tool.input).properties,
        );
        for (const field of [tool.path, tool.subject])
          if (field !== undefined) expect(fields).toContain(field);
        expect(fields, `${tool.name} leaves "op" to the kernel`).not.toContain("op");
        expect(tool.description.length, `${tool.name} describes itself`).toBeGreaterThan(20);
      }
    }
    for (const { name: command, actions } of plugin.commands ?? []) {
      for (const { example } of Object.values(actions)) expect(example).toStartWith(`rnix ${command}`);
    }
  });
}

/** Sets the stage before the tests of a block, and clears it after them. */
function staged(cases: PluginCases, load: () => Promise<Loaded>): () => Stage {
  let stage: (Stage & { end(): Promise<void> }) | undefined;
  beforeAll(async () => {
    const dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-conformance-")));
    const { plugin, end } = await load();
    const services = await cases.setup?.(dir);
    const real = plugin.needs?.includes("exec") ? openContext(dir, join(dir, ".kept"), services) : undefined;
    const { context } = real ?? testContext(dir, services);
    stage = {
      dir,
      plugin,
      context,
      async end() {
        await end();
        await cases.teardown?.();
        await real?.[Symbol.asyncDispose]();
        rmSync(dir, { recursive: true, force: true });
      },
    };
  });
  afterAll(() => stage?.end());
  return () => {
    if (!stage) throw new Error("The plugin was not loaded.");
    return stage;
  };
}

/** A mount like the kernel's: opened, used, unmounted once. */
function describeMount(cases: PluginCases, mounts: MountCases, load: () => Promise<Loaded>): void {
  const stage = staged(cases, load);
  const never = new AbortController().signal;
  const mount = (config: object, signal = never): Promise<Mounted> => {
    const { plugin, context } = stage();
    if (!plugin.mount) throw new Error("the plugin mounts nothing");
    return plugin.mount.open(config, context, signal);
  };

  test("a mount has paths below its point, and tools with schemas", async () => {
    const mounted = await mount(mounts.config(stage().dir));
    const table = tableOf(mounted);
    expect(table.entries().length).toBeGreaterThan(0);
    for (const { device } of table.entries()) {
      expect(device.provider).toBeUndefined();
      for (const tool of device.tools ?? []) expect(tool.input).toMatchObject({ type: "object" });
    }
    expect(await mounted.unmount()).toBeUndefined();
  });

  for (const operation of mounts.operations) {
    test(`mounted: ${operation.title}`, async () => {
      const { dir, context } = stage();
      const mounted = await mount(mounts.config(dir));
      try {
        const run = async (): Promise<Data> => {
          const file = await open(tableOf(mounted), POINT + operation.device, context, operation.flags);
          return exchange(file, written(operation.input)).finally(() => file.close());
        };
        if (operation.error) expectCode(await failure(run), operation.error);
        else await operation.answer?.(text(await run()), dir);
      } finally {
        await mounted.unmount();
      }
    });
  }

  for (const { title, config, error } of mounts.refused) {
    test(`does not mount ${title}`, async () => {
      expectCode(await failure(() => mount(config(stage().dir))), error);
    });
  }

  test("does not begin to mount under a signal that has fired", async () => {
    const gone = AbortSignal.abort(new SyscallError("CANCELLED", "Too late."));
    expectCode(await failure(() => mount(mounts.config(stage().dir), gone)), "CANCELLED");
  });

  const { endless } = mounts;
  if (!endless) return;
  test("gives an opening up when its signal fires", async () => {
    const controller = new AbortController();
    const opening = failure(() => mount(endless(stage().dir), controller.signal));
    await new Promise((turned) => setImmediate(turned));
    const started = performance.now();
    controller.abort(new SyscallError("CANCELLED", "The test gave up."));
    expectCode(await opening, "CANCELLED");
    expect(performance.now() - started).toBeLessThan(ABORT_MS);
  });
}

const POINT = "/mnt/test/1-x";

function tableOf(mounted: Mounted): DeviceRegistry {
  const table = new DeviceRegistry();
  for (const [place, device] of Object.entries(mounted.devices)) {
    table.register({ path: POINT + place, device, plugin: "p", layer: "mount", needs: [] });
  }
  return table;
}

function describeDevices(cases: PluginCases, load: () => Promise<Loaded>): void {
  const stage = staged(cases, load);
  let plugin: Plugin;
  let dir: string;
  let context: OpenContext;
  const table = new DeviceRegistry();
  beforeAll(() => {
    ({ plugin, dir, context } = stage());
    const { name, devices = {}, needs = [] } = plugin;
    for (const [path, device] of Object.entries(devices)) {
      table.register({ path, device, plugin: name, layer: "stock", needs });
    }
  });
  const never = () => new AbortController().signal;

  test("opens with each flag or says why not, and closes unused", async () => {
    for (const { path } of table.entries()) {
      for (const flags of FLAGS) {
        const file = await settled(() => open(table, path, context, flags));
        if (!(file instanceof SyscallError)) expect(await file.close()).toBeUndefined();
      }
    }
  });

  test("describes an open file, whose path is the device's or below it", async () => {
    for (const { path } of table.entries()) {
      const file = await settled(() => open(table, path, context));
      if (file instanceof SyscallError) continue;
      expectStat(await file.stat(), path);
      await file.close();
    }
  });

  test("answers input it can't read with a SyscallError or an answer, and still closes", async () => {
    for (const { path } of table.entries()) {
      for (const garbage of ["", "{", "[]", '{"op":"no-such-operation"}', new Uint8Array([0, 255, 254])]) {
        const file = await settled(() => open(table, path, context));
        if (file instanceof SyscallError) continue;
        await settled(() => exchange(file, garbage));
        expect(await file.close()).toBeUndefined();
      }
    }
  });

  for (const operation of cases.operations) {
    test(operation.title, async () => {
      const run = async (): Promise<Data> => {
        const file = await open(table, operation.device, context, operation.flags);
        try {
          const answer = await exchange(file, written(operation.input));
          expect((await file.read(1024, never())).length, "after the end comes the end").toBe(0);
          return answer;
        } finally {
          expect(await file.close()).toBeUndefined();
        }
      };
      if (operation.error) expectCode(await failure(run), operation.error);
      else await operation.answer?.(text(await run()), dir);
    });
  }

  test("answers NOT_FOUND for a path below it where nothing is", async () => {
    for (const { path, device } of table.entries()) {
      if (device.match !== "prefix") expect(table.match(`${path}/no/such`)?.entry.path).not.toBe(path);
    }
    const { unknown } = cases;
    if (typeof unknown !== "string") return;
    const error = await failure(async () => {
      const file = await open(table, unknown, context, O_RDONLY);
      return exchange(file, null).finally(() => file.close());
    });
    expectCode(error, "NOT_FOUND");
  });

  const { endless } = cases;
  if (endless) {
    test("answers an abort with CANCELLED at once, and closes after it", async () => {
      const file = await open(table, endless.device, context, endless.flags);
      const controller = new AbortController();
      const running = failure(() => exchange(file, written(endless.input), { signal: controller.signal }));
      // One turn of the loop, so that the operation has begun.
      await new Promise((turned) => setImmediate(turned));
      const started = performance.now();
      controller.abort(new SyscallError("CANCELLED", "The test gave up."));
      expectCode(await running, "CANCELLED");
      expect(performance.now() - started).toBeLessThan(ABORT_MS);
      expect(await file.close()).toBeUndefined();
    });
  }

  test("does not begin under a signal that has fired", async () => {
    const operation = endless ?? cases.operations.find(({ error }) => error === undefined);
    if (!operation && cases.mount) return; // A plugin whose devices are all mounted: see there.
    if (!operation) throw new Error("the cases hold no operation that succeeds");
    const file = await open(table, operation.device, context, operation.flags);
    const signal = AbortSignal.abort(new SyscallError("CANCELLED", "Too late."));
    expectCode(await failure(() => exchange(file, written(operation.input), { signal })), "CANCELLED");
    expect(await file.close()).toBeUndefined();
  });

  test("gives a part of the prompt that fits, or none, and gives up when its signal fires", async () => {
    const { prompt } = plugin;
    if (!prompt) return;
    const part = await prompt.call(plugin, context, never());
    if (part !== null) {
      expect(part.title).toMatch(/^\P{Cc}{1,100}$/u);
      expect(part.text.length).toBeLessThanOrEqual(16_384);
    }
    const gone = AbortSignal.abort(new SyscallError("CANCELLED", "Too late."));
    await settled(() => Promise.resolve(prompt.call(plugin, context, gone)));
  });

  test("detects a provider without throwing", async () => {
    for (const { device } of table.entries()) {
      if (!device.provider) continue;
      const found = await device.provider.detect({});
      if (found !== null) expect(found.model).toBeString();
    }
  });
}

function written(input: Operation["input"]): Data | null {
  if (input === null || typeof input === "string" || input instanceof Uint8Array) return input;
  return JSON.stringify(input);
}

function stockEntry(name: string): string {
  const file = join(PLUGINS, `${name}.ts`);
  return existsSync(file) ? file : join(PLUGINS, name, "index.ts");
}

/** Imports the plugin in a program of its own, which must then end by itself. */
const IMPORT_PROBE = `
import { readdirSync } from "node:fs";
const fds = () => readdirSync(process.platform === "linux" ? "/proc/self/fd" : "/dev/fd").length;
const before = fds();
await import(process.argv.at(-1));
const libraries = Object.keys(require.cache).filter((file) => file.includes("/node_modules/"));
console.log(JSON.stringify({ opened: fds() - before, libraries }));
`;
