/** The context that a plugin gets to open a mount. */

import { join } from "node:path";
import { type Child, type ExecRequest, type OpenContext, SyscallError } from "../../plugin/index.ts";
import { pluginStore } from "../files/open-context.ts";
import type { Core } from "../tiers/core.ts";
import type { MountOpener, ProjectHandle } from "../types.ts";

/** The request for the same program in the sandbox and the network of the processes that share a mount. */
export type Confine = (request: ExecRequest) => Promise<ExecRequest>;

/** An attempt to open a mount. It owns the programs that it starts. */
export interface Opening {
  /** Owns the programs. It is no UUID of a process: they run as long as the mount is open. */
  uuid: string;
  opener: MountOpener;
  /** Type and name, for the log. */
  label: string;
  project: ProjectHandle;
  env: Record<string, string>;
  confine?: Confine | undefined;
  /** Aborted when the mount is closed: it can start no more programs. */
  signal: AbortSignal;
  /** Notifies the processes that use the mount. */
  inbox(text: string): Promise<void>;
}

/**
 * A mount belongs to no single process, so its folder is the project's, and it has no run to store data in. Calls of
 * its devices have the context of their own process.
 */
export function mountContext(parts: Core, opening: Opening): OpenContext {
  const { uuid, opener, label, project, env } = opening;
  const log = (level: "debug" | "info" | "warn", text: string): void => {
    if (level === "info" && parts.mountLog) parts.mountLog(label, `${project.dir}: ${text}`);
    else parts.log(level, `plugin ${opener.plugin}, mount ${label}`, text);
  };
  return {
    process: { pid: 0, uuid, tree: uuid, agent: "", depth: 0, attended: false, operator: false },
    project: { id: project.id, dir: project.dir, trusted: project.trusted },
    cwd: project.dir,
    folders: [],
    guarded: [{ dir: project.dataDir, readable: true }, ...parts.guarded],
    env,
    config: opener.config,
    progress: (text) => log("debug", text),
    output: (text) => log("debug", text),
    checklist: () => undefined,
    changing: async () => undefined,
    changed: (file) => log("debug", `changed ${file}`),
    log,
    spill: async () => {
      throw new SyscallError(
        "UNAVAILABLE",
        "A mount belongs to no run, so it cannot store data in one. Use the context of the call that needs the data.",
      );
    },
    inbox: (text) => opening.inbox(text),
    access: async () => {
      throw new SyscallError(
        "UNAVAILABLE",
        "A mount belongs to no single process. Use the context of the call that opens the file.",
      );
    },
    // Its URL is checked for each process that uses it.
    connect: async () => null,
    ...(opener.needs.includes("exec") && { exec: (request) => exec(parts, opening, request) }),
    ...(opener.needs.includes("store") && {
      store: pluginStore(opener, { project, user: parts.userDataDir }, (text) => log("warn", text)),
    }),
  };
}

/** Starts a program. Its output is not written to disk, because only the plugin reads it. */
async function exec(parts: Core, opening: Opening, request: ExecRequest): Promise<Child> {
  const { uuid, project, env, signal, confine } = opening;
  const owner = { uuid, spillDir: join(project.dataDir, "mounts", uuid) };
  const whole: ExecRequest = {
    ...request,
    // The program of a shared key may be one without this sandbox.
    life: typeof request.life === "string" || confine ? "process" : request.life,
    cwd: request.cwd ?? project.dir,
    env: { ...env, ...request.env },
    maxOutput: 0,
  };
  const started = confine ? await confine(whole) : whole;
  if (signal.aborted) throw new SyscallError("CLOSED", "The mount is closed and starts no more programs.");
  return parts.children.exec({ ...owner, confined: confine && { argv: request.argv } }, started);
}
