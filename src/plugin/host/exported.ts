/** The plugin that a module exports. */

import { definePlugin, type Plugin, SyscallError, type Tool } from "../index.ts";

/** The default export of a module that was checked, here or by the build. */
export function exportedPlugin(name: string, module: unknown): Plugin {
  if (!hasPlugin(module)) throw new SyscallError("INTERNAL", "A module without a plugin was taken for one.");
  return wholePlugin(name, module.default);
}

/** A single tool is a plugin with the name of its file. */
export function wholePlugin<T>(name: string, exported: T | Tool): T | Plugin {
  return isTool(exported) ? definePlugin({ name, tools: [exported] }) : exported;
}

function hasPlugin(module: unknown): module is { default: Plugin | Tool } {
  return typeof module === "object" && module !== null && "default" in module;
}

function isTool(exported: unknown): exported is Tool {
  return typeof exported === "object" && exported !== null && "tool" in exported && "run" in exported;
}
