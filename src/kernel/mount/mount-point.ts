import { type Device, SyscallError, type ToolDef } from "../../plugin/index.ts";
import type { DeviceEntry } from "../../vfs/registry.ts";
import { DeviceRegistry } from "../../vfs/registry.ts";
import type { MountRequest, PID } from "../types.ts";
import type { MountSource } from "./mount-source.ts";

const TYPE = /^[A-Za-z][A-Za-z0-9]{0,31}$/;
const NAME = /^[A-Za-z0-9._-]{1,64}$/;
/** Characters of a tool's name, as the model providers take them. */
const MAX_TOOL_NAME = 64;
const HASH_CHARS = 8;

/** INVALID for a type or name that could not stand in a path and in a tool's name. */
export function checkRequest({ type, name }: Pick<MountRequest, "type" | "name">): void {
  if (TYPE.test(type) && NAME.test(name) && !name.includes("__") && !/^\.+$/.test(name)) return;
  throw new SyscallError(
    "INVALID",
    `Mount ${JSON.stringify(`${type} ${name}`).slice(0, 200)}: expected a type of letters and digits, and a name of at most 64 letters, digits, ".", "_" and "-", without "__".`,
  );
}

/** `/mnt/<type>/{pid}-{name}`; without a process, one that many see: `/mnt/<type>/<name>`. */
export function mountPath({ type, name }: Pick<MountRequest, "type" | "name">, pid?: PID): string {
  return `/mnt/${type}/${pid === undefined ? name : `${pid}-${name}`}`;
}

/** How the names of its tools begin. */
export function toolPrefix({ type, name }: Pick<MountRequest, "type" | "name">): string {
  return `${type}__${name.replaceAll(".", "_")}__`;
}

/** What a mount gives rights to: its tools by name, which its children can have too, and its own path. */
export function mountRules(request: MountRequest, path: string): string[] {
  return [`${toolPrefix(request)}*`, path];
}

/**
 * The devices of a source as they stand at one mount point. What does not fit is left out, with a word why:
 * the others are there.
 */
export function placed(
  request: MountRequest,
  path: string,
  source: MountSource,
): { entries: DeviceEntry[]; problems: string[] } {
  const { plugin, needs, config } = source.opener;
  const table = new DeviceRegistry();
  const problems: string[] = [];
  const taken = new Set<string>();
  for (const [place, device] of Object.entries(source.devices)) {
    const tools = shownAs(toolPrefix(request), device.tools ?? [], taken, problems);
    const shown: Device = { match: device.match, tools, factory: source.factory(place) };
    try {
      if (place !== "" && !place.startsWith("/"))
        throw new SyscallError("INVALID", `Place ${place}: expected "" or a "/" first.`);
      table.register({ path: path + place, device: shown, plugin, layer: "mount", needs, config });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      problems.push(thrown.message);
    }
  }
  return { entries: table.entries(), problems };
}

/** The tools under their whole names; what is written to the device stays what its plugin calls them. */
function shownAs(
  prefix: string,
  tools: readonly ToolDef[],
  taken: Set<string>,
  problems: string[],
): ToolDef[] {
  return tools.flatMap((tool) => {
    const name = fitted(prefix + tool.name.replaceAll(/[^A-Za-z0-9_-]/g, "_"));
    if (taken.has(name)) {
      problems.push(`Its tool ${tool.name} is not offered: another one is called ${name}.`);
      return [];
    }
    taken.add(name);
    return [{ ...tool, name, op: tool.op ?? tool.name }];
  });
}

/** Shortens a name that is too long; a hash of the whole name keeps it unique. */
function fitted(name: string): string {
  if (name.length <= MAX_TOOL_NAME) return name;
  const hash = Bun.hash(name).toString(16).padStart(HASH_CHARS, "0").slice(-HASH_CHARS);
  return `${name.slice(0, MAX_TOOL_NAME - HASH_CHARS - 1)}_${hash}`;
}
