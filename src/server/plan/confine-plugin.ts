/** The sandbox of the process of a plugin from disk. */

import { join } from "node:path";
import type { Env, UserPaths } from "../../config/environment/paths.ts";
import { compiled } from "../../plugin/host/embedded.ts";
import type { Confine } from "../../plugin/host/process-options.ts";
import { SyscallError } from "../../plugin/index.ts";
import { BINARY_DIR, hasNamespaces, type SandboxScope } from "../../sandbox/policy.ts";
import { probeSandbox, type SandboxProbe, sandboxed } from "../../sandbox/sandbox.ts";

/** Confines by what this machine can make, found out once. `env`: of this server. */
export function confinePlugins(user: Pick<UserPaths, "home" | "configDir" | "dataDir">, env: Env): Confine {
  let probed: Promise<SandboxProbe> | undefined;
  const given = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return async ({ level, required, id, project, folder }) => {
    if (!compiled) return null;
    probed ??= probeSandbox(env);
    const found = await probed;
    if (!found.works) probed = undefined;
    if (!found.works && required) {
      const why = `A sandbox is required, but ${found.why}. To have one: ${found.advice}.`;
      throw new SyscallError("UNAVAILABLE", why);
    }
    const made = found.works ? found : found.lesser;
    if (!made) return null;
    const home = join(user.dataDir, "plugin-homes", id);
    const scope: SandboxScope = {
      level,
      project: project ?? home,
      folders: [],
      env: Object.fromEntries(given),
      userHome: user.home,
      temp: null,
      home,
      own: [user.configDir, user.dataDir, ...(project === null ? [] : [join(project, ".rnix/data")])],
      readable: [folder],
      socket: null,
      binary: process.execPath,
      isRoot: process.getuid?.() === 0,
    };
    const { confine } = sandboxed({ ...made, level }, scope, { cwd: "/", env: scope.env });
    const isNested = hasNamespaces({ mechanism: made.mechanism });
    // In namespaces the folder of this binary may be hidden.
    const binary = isNested ? join(BINARY_DIR, "rnix") : process.execPath;
    return { isNested, argv: ([, ...args]) => [...confine, binary, ...args] };
  };
}
