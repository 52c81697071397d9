import { type Plugin, SyscallError } from "../index.ts";

/** The default export of a module that was checked, here or by the build. */
export function exportedPlugin(module: unknown): Plugin {
  if (!hasPlugin(module)) throw new SyscallError("INTERNAL", "A module without a plugin was taken for one.");
  return module.default;
}

function hasPlugin(module: unknown): module is { default: Plugin } {
  return typeof module === "object" && module !== null && "default" in module;
}
