/**
 * The program of the process that runs one version of one plugin from disk. It imports the plugin and serves the
 * kernel's calls to it. Trust decides whether the plugin may run, and the server whether in a sandbox.
 */

import { inspect } from "node:util";
import * as contract from "../index.ts";
import { type FileStat, type Plugin, SyscallError, type Tool, type VFSFile } from "../index.ts";
import { wholePlugin } from "./exported.ts";
import { HostServices, limited, ProgramMounts } from "./program-context.ts";
import { sketch } from "./sketch.ts";
import type { Answer, DriverAnswers, DriverCall, ToHost, ToProgram } from "./wire.ts";
import { toWire } from "./wire-error.ts";

const LONGEST_TEXT = 8_192;

// Taken before the plugin can change the globals.
const send = process.send?.bind(process);
const end = process.exit.bind(process);
const post = (message: ToHost): void => void send?.(message);

const services = new HostServices(post);
const files = new Map<number, VFSFile>();
const mounts = new ProgramMounts(post);
const running = new Map<number, AbortController>();
let plugin: Plugin | undefined;
let pluginName = "";
/** Never resolves: the process ends by itself. */
export const ended = new Promise<never>(() => {});

process.on("message", (data: ToProgram) => {
  switch (data.t) {
    case "load":
      void load(data.name, data.code);
      break;
    case "call":
      void serve(data.id, data.call);
      break;
    case "abort":
      running.get(data.id)?.abort(new SyscallError(data.error.code ?? "CANCELLED", data.error.message));
      break;
    case "answer":
      services.answered(data.id, data.value, data.error, pluginName);
      break;
    case "ping":
      post({ t: "pong" });
      break;
  }
});
// A driver gets the environment of its run from the context.
for (const name of Object.keys(process.env)) delete process.env[name];
// The kernel has ended.
process.on("disconnect", () => end(0));
process.on("uncaughtException", crash);
process.on("unhandledRejection", crash);
// The plugin gets the same classes as the stock plugins, wherever its files are.
provide("rnix/plugin", { exports: { ...contract }, loader: "object" });
catchOutput();

async function load(name: string, code: string): Promise<void> {
  pluginName = name;
  try {
    provide(`rnix-plugin/${name}`, { contents: code, loader: "js" });
    const module: { default?: Plugin | Tool } = await import(`rnix-plugin/${name}`);
    plugin = wholePlugin(name, module.default);
    post({ t: "loaded", sketch: sketch({ ...module, default: plugin }) });
  } catch (thrown) {
    post({ t: "failed", error: toWire(thrown) });
  }
}

/** Registers a module under a name that no file on disk can replace. */
function provide(name: string, module: Bun.OnLoadResult): void {
  Bun.plugin({ name, setup: (builder) => void builder.module(name, () => module) });
}

async function serve(id: number, call: DriverCall): Promise<void> {
  const controller = new AbortController();
  running.set(id, controller);
  try {
    post({ t: "answer", id, value: await perform(call, controller.signal) });
  } catch (thrown) {
    post({ t: "answer", id, error: toWire(thrown) });
  } finally {
    running.delete(id);
  }
}

/** Runs a call and checks that the driver's answer fits the contract. */
async function perform(
  call: DriverCall,
  signal: AbortSignal,
): Promise<Answer<DriverAnswers, DriverCall["m"]>> {
  switch (call.m) {
    case "open": {
      const context = services.context(call.file, call.context);
      const from = call.mount === undefined ? device(call.device) : mounts.device(call.mount, call.device);
      const file = await from.factory(call.subpath, call.flags, context);
      files.set(call.file, checkedFile(file, call.device));
      return;
    }
    case "write":
      return void (await open(call.file).write(call.data, signal));
    case "read": {
      const piece = await open(call.file).read(call.max, signal);
      const fits = typeof piece === "string" || piece instanceof Uint8Array;
      return checked(piece, fits, "read()", "a string or a Uint8Array");
    }
    case "stat":
      return checkedStat(await open(call.file).stat());
    case "close": {
      const file = files.get(call.file);
      files.delete(call.file);
      return void (await file?.close());
    }
    case "detect": {
      const found = (await device(call.device).provider?.detect(call.env)) ?? null;
      const fits = found === null || typeof found.model === "string";
      return checked(found, fits, "provider.detect()", "{ model } or null");
    }
    case "mount": {
      const context = services.context(call.mount, call.context);
      const { mount } = plugin ?? {};
      if (!mount) throw new SyscallError("NOT_FOUND", `Plugin ${pluginName} mounts nothing.`);
      return mounts.add(call.mount, await mount.open(call.config, context, signal));
    }
    case "unmount":
      return mounts.end(call.mount);
    case "prompt": {
      const part = (await plugin?.prompt?.(services.context(call.file, call.context), signal)) ?? null;
      const fits = part === null || (typeof part.title === "string" && typeof part.text === "string");
      return checked(part, fits, "prompt()", "{ title, text } or null");
    }
    case "filesChanged": {
      const context = services.context(call.file, call.context);
      const text = (await plugin?.filesChanged?.(call.files, context, signal)) ?? null;
      return checked(text, text === null || typeof text === "string", "filesChanged()", "a string or null");
    }
    case "dispose":
      return void (await plugin?.dispose?.());
  }
}

function device(path: string): NonNullable<Plugin["devices"]>[string] {
  const found = plugin?.devices?.[path];
  if (!found) throw new SyscallError("NOT_FOUND", `Plugin ${pluginName} has no device ${path}.`);
  return found;
}

function open(id: number): VFSFile {
  const file = files.get(id);
  if (!file) throw new SyscallError("CLOSED", "The file is closed.");
  return file;
}

function checkedFile(file: VFSFile, path: string): VFSFile {
  const fits = (["write", "read", "close", "stat"] as const).every(
    (one) => typeof file?.[one] === "function",
  );
  return checked(file, fits, `The factory of ${path}`, "a file with write, read, close and stat");
}

function checkedStat(stat: FileStat): FileStat {
  const fits =
    typeof stat?.name === "string" &&
    typeof stat.size === "number" &&
    typeof stat.isDevice === "boolean" &&
    typeof stat.devicePath === "string";
  return checked(stat, fits, "stat()", "{ name, size, isDevice, devicePath }");
}

/** Returns what a driver has answered if it fits the contract. */
function checked<T>(came: T, fits: boolean, who: string, expected: string): T {
  if (fits) return came;
  const shown = inspect(came, { depth: 0 }).slice(0, 100);
  throw new SyscallError("DRIVER", `Plugin ${pluginName}: ${who} answered ${shown}; expected ${expected}.`);
}

function crash(thrown: unknown): void {
  const message: ToHost = { t: "crash", error: toWire(thrown) };
  // Sent before the end, however full the channel is.
  send?.(message, undefined, undefined, () => end(1));
}

/** Sends the plugin's console output to the log. */
function catchOutput(): void {
  const say = limited((text) => post({ t: "said", text: text.slice(0, LONGEST_TEXT) }));
  const write = (chunk: string | Uint8Array): boolean => {
    say(typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk));
    return true;
  };
  process.stdout.write = write;
  process.stderr.write = write;
  const print = (...values: unknown[]) =>
    say(values.map((v) => (typeof v === "string" ? v : inspect(v))).join(" "));
  for (const level of ["debug", "error", "info", "log", "trace", "warn"] as const) console[level] = print;
}
