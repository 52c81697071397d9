/** Confines the programs of a process that has a sandbox. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { spawnError } from "../../os/spawn-error.ts";
import { type ExecRequest, SyscallError } from "../../plugin/index.ts";
import { TEMPORARY } from "../../sandbox/level.ts";
import { refusals, type SandboxView } from "../../sandbox/refusals.ts";
import { sandboxed } from "../../sandbox/sandbox.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { Process } from "../process/process.ts";

/** The request for the same program in the sandbox of the process. */
export function confined<R extends Pick<ExecRequest, "argv" | "cwd" | "env">>(
  proc: Process,
  request: R,
  { userDataDir, sandboxing }: Pick<KernelPorts, "userDataDir" | "sandboxing">,
): R {
  const { spec, record } = proc;
  const { confinement, project, folders = [], cwd: folder } = spec.opts;
  if (!confinement || !sandboxing)
    throw new SyscallError("UNAVAILABLE", "This kernel can't confine a program.");
  const { own, userHome, socket, binary } = sandboxing;
  const program = {
    argv: request.argv,
    cwd: request.cwd ?? folder,
    env: { ...spec.opts.env, ...request.env },
  };
  requireProgram(program);
  const scope = {
    level: confinement.level,
    project: project.dir,
    folders: [...new Set([...folders, folder])].filter((one) => one !== project.dir),
    env: program.env,
    userHome,
    temp: join(record.dir, TEMPORARY),
    home: join(project.dataDir, "sandbox", "home"),
    own: [...own, userDataDir, project.dataDir],
    readable: [record.spillDir],
    socket,
    binary,
    isRoot: process.getuid?.() === 0,
  };
  const { mounts, ...confined } = sandboxed(confinement, scope, program);
  views.set(proc, {
    mounts,
    given: [scope.project, ...scope.folders],
    isReadOnly: scope.level === "read-only",
    cwd: program.cwd,
    home: program.env.HOME,
  });
  return { ...request, cwd: program.cwd, ...confined };
}

/** What the last program of a process saw, until the result of its call. */
const views = new WeakMap<Process, SandboxView>();

/** What the sandbox refused to the programs of a call, for the model. The user gets a notice of each path once. */
export function sandboxRefusals(proc: Process, result: string, notice: (text: string) => void): string {
  const view = views.get(proc);
  views.delete(proc);
  if (view === undefined) return "";
  const found = refusals(result, view);
  const known = shown.get(proc) ?? new Set();
  shown.set(proc, known);
  for (const text of found.filter((one) => !known.has(one) && known.size < MAX_NOTICES)) {
    known.add(text);
    notice(text);
  }
  return found.map((text) => `\n[${text}]`).join("");
}

const shown = new WeakMap<Process, Set<string>>();
const MAX_NOTICES = 50;

/** Outside of a sandbox a missing program fails at the start; inside, only bubblewrap would report it. */
function requireProgram({
  argv,
  cwd,
  env,
}: {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
}): void {
  const { PATH = "" } = env;
  if (Bun.which(argv[0] ?? "", { PATH, cwd }) !== null && existsSync(cwd)) return;
  throw spawnError(Object.assign(new Error("ENOENT"), { code: "ENOENT" }), argv, cwd, PATH);
}
