/** The hooks of plugins: what the kernel asks them for a process without a call. */

import { type OpenContext, SyscallError } from "../../plugin/index.ts";
import type { DeviceEntry } from "../../vfs/namespace.ts";
import type { Process } from "../process/process.ts";
import type { HookSource } from "../types.ts";
import { usableTools } from "./tool-catalog.ts";

export type MakeContext = (
  proc: Process,
  entry: DeviceEntry,
  as: { kind: "kernel" },
  access: OpenContext["access"],
) => OpenContext;

/** The plugins with this hook and a tool that the process may use, in the order of their names. */
export function hooksOf(proc: Process, hook: "prompt" | "filesChanged"): HookSource[] {
  const sources = (proc.spec.opts.devices.hooks ?? []).filter((source) => source[hook]);
  if (sources.length === 0) return [];
  const entries = [...usableTools(proc).values()].map(({ entry }) => entry);
  return sources
    .filter(({ plugin, layer }) => entries.some((one) => one.plugin === plugin && one.layer === layer))
    .toSorted((a, b) => (a.plugin < b.plugin ? -1 : 1));
}

/** The context of a hook is that of an open file, and this is no device. */
export function hookContext(proc: Process, source: HookSource, make: MakeContext): OpenContext {
  const { plugin, isStock, layer, needs, secrets, config } = source;
  const factory = (): never => {
    throw new SyscallError("INTERNAL", "A hook of a plugin was opened.");
  };
  const entry = {
    path: `hook of ${plugin}`,
    device: { factory },
    plugin,
    isStock,
    layer,
    needs,
    secrets,
    config,
  };
  return make(proc, entry, { kind: "kernel" }, noAccess);
}

/** Refuses every file: no rule of the process applies to a hook. */
async function noAccess(paths: readonly string[]): Promise<string[]> {
  return paths.map(() => "a hook of a plugin has no right to files of the process");
}
