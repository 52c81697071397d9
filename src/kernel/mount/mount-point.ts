/** Paths, tool names and devices of a mount point. */

import { type Device, SyscallError, type ToolDef } from "../../plugin/index.ts";
import type { DeviceEntry } from "../../vfs/registry.ts";
import { DeviceRegistry } from "../../vfs/registry.ts";
import type { MountRequest, PID } from "../types.ts";
import type { MountSource } from "./mount-source.ts";

const TYPE = /^[A-Za-z][A-Za-z0-9]{0,31}$/;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;
/** Maximum characters of a tool's name at the model providers. */
const MAX_TOOL_NAME = 64;
const HASH_CHARS = 8;

/** Fails with INVALID for a type or name that can't be part of a path and of a tool's name. */
export function checkRequest({ type, name }: Pick<MountRequest, "type" | "name">): void {
  if (TYPE.test(type) && NAME.test(name) && !name.includes("__") && !/^\.+$/.test(name)) return;
  throw new SyscallError(
    "INVALID",
    `Mount ${JSON.stringify(`${type} ${name}`).slice(0, 200)}: expected a type of letters and digits, and a name of at most 64 letters, digits, ".", "_" and "-", without "__".`,
  );
}

/** Returns `/mnt/<type>/{pid}-{name}`; for a shared mount, `/mnt/<type>/<name>`. */
export function mountPath({ type, name }: Pick<MountRequest, "type" | "name">, pid?: PID): string {
  return `/mnt/${type}/${pid === undefined ? name : `${pid}-${name}`}`;
}

/** Returns the prefix of its tools' names. */
export function toolPrefix({ type, name }: Pick<MountRequest, "type" | "name">): string {
  return `${type}__${name.replaceAll(".", "_")}__`;
}

/** Returns the rules that a mount grants: its tools by name, which children can have too, and its path. */
export function mountRules(request: MountRequest, path: string): string[] {
  return [`${toolPrefix(request)}*`, path];
}

/**
 * Returns the devices of a source at a mount point. A device or tool that does not fit is reported as a problem.
 * `defer`: the model loads the tools with ToolSearch.
 */
export function devicesAt(
  request: MountRequest,
  path: string,
  source: MountSource,
  defer?: true,
): { entries: DeviceEntry[]; problems: string[] } {
  const { plugin, needs, config } = source.opener;
  const table = new DeviceRegistry();
  const problems: string[] = [];
  const taken = new Set<string>();
  for (const [subpath, device] of Object.entries(source.devices)) {
    const named = prefixedTools(toolPrefix(request), device.tools ?? [], taken, problems);
    const tools = defer ? named.map((tool) => ({ ...tool, defer })) : named;
    const shown: Device = { match: device.match, tools, factory: source.factory(subpath) };
    try {
      if (subpath !== "" && !subpath.startsWith("/"))
        throw new SyscallError(
          "INVALID",
          `Device ${JSON.stringify(subpath)}: expected "" or a path that begins with "/".`,
        );
      table.register({ path: path + subpath, device: shown, plugin, layer: "mount", needs, config });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      problems.push(thrown.message);
    }
  }
  return { entries: table.entries(), problems };
}

/** Gives the tools their full names. The operation written to the device keeps the plugin's own name. */
function prefixedTools(
  prefix: string,
  tools: readonly ToolDef[],
  taken: Set<string>,
  problems: string[],
): ToolDef[] {
  return tools.flatMap((tool) => {
    const name = shortenName(prefix + tool.name.replaceAll(/[^A-Za-z0-9_-]/g, "_"));
    if (taken.has(name)) {
      problems.push(`Its tool ${tool.name} is not offered: another tool has the name ${name}.`);
      return [];
    }
    taken.add(name);
    return [{ ...tool, name, op: tool.op ?? tool.name }];
  });
}

/** Shortens a name that is too long; a hash of the whole name keeps it unique. */
function shortenName(name: string): string {
  if (name.length <= MAX_TOOL_NAME) return name;
  const hash = Bun.hash(name).toString(16).padStart(HASH_CHARS, "0").slice(-HASH_CHARS);
  return `${name.slice(0, MAX_TOOL_NAME - HASH_CHARS - 1)}_${hash}`;
}
