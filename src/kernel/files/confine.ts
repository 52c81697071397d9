/** Confines the programs of a process that has a sandbox. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { spawnError } from "../../os/spawn-error.ts";
import { type ExecRequest, SyscallError } from "../../plugin/index.ts";
import { TEMPORARY } from "../../sandbox/level.ts";
import { sandboxed } from "../../sandbox/sandbox.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { Process } from "../process/process.ts";

/** The request for the same program in the sandbox of the process. */
export function confined<R extends Pick<ExecRequest, "argv" | "cwd" | "env">>(
  { spec, record }: Process,
  request: R,
  { userDataDir, sandboxing }: Pick<KernelPorts, "userDataDir" | "sandboxing">,
): R {
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
  return { ...request, cwd: program.cwd, ...sandboxed(confinement, scope, program) };
}

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
