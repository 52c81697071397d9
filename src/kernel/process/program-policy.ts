/** What the kernel sets for the programs of a run: limits, a sandbox, and git without the repository's own programs. */

import { libc } from "../../os/libc.ts";
import { type LimitKind, type ProgramLimits, RLIMITS } from "../../os/program-group.ts";
import { isLimited } from "../../proxy/host-rules.ts";
import { textsOf } from "../permission/coverage.ts";
import type { OpenAs } from "../permission/file-grant.ts";
import type { Limits } from "../types.ts";
import type { Process } from "./process.ts";

/**
 * Equal for processes whose programs have the same sandbox and network; undefined where neither limits them. A limited
 * network is of one run: its proxy decides and records for that run.
 */
export function programPolicy({ uuid, spec, permissions }: Process): string | undefined {
  const { confinement, network, folders = [], cwd } = spec.opts;
  const own = isLimited(network) ? uuid : null;
  if (!confinement) return own ?? undefined;
  const { denials, limits } = permissions.overFiles;
  const rules = [denials, ...limits].map(textsOf);
  return JSON.stringify([confinement.level, own, cwd, rules, ...[...folders].sort()]);
}

const CONFIGURATION = [
  ["core.fsmonitor", "false"],
  ["core.hooksPath", "/dev/null"],
  ["safe.bareRepository", "explicit"],
  ["log.showSignature", "false"],
] as const;

/** Adds it to a command of a call that needs no question because it only reads. */
export function withQuietGit<R extends { env?: Record<string, string> }>(
  { permissions, spec }: Process,
  path: string,
  as: OpenAs,
  request: R,
): R {
  if (as.kind !== "tool" || as.subject === undefined) return request;
  if (!permissions.readsByGit({ tool: as.tool, path, subject: as.subject })) return request;
  return { ...request, env: { ...request.env, ...quietGit({ ...spec.opts.env, ...request.env }) } };
}

function quietGit({
  GIT_CONFIG_COUNT,
}: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const given = Number(GIT_CONFIG_COUNT ?? 0) || 0;
  const keys = CONFIGURATION.flatMap(([key, value], i) => [
    [`GIT_CONFIG_KEY_${given + i}`, key],
    [`GIT_CONFIG_VALUE_${given + i}`, value],
  ]);
  return {
    ...Object.fromEntries(keys),
    GIT_CONFIG_COUNT: String(given + CONFIGURATION.length),
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_LAZY_FETCH: "1",
    GIT_ALLOW_PROTOCOL: "none",
    GIT_TERMINAL_PROMPT: "0",
  };
}

export type ProgramLimitName =
  | "program_processes"
  | "program_memory"
  | "program_files"
  | "program_cpu"
  | "program_file_size";

export function programLimits(limits: Pick<Limits, ProgramLimitName>): ProgramLimits {
  return {
    processes: limits.program_processes,
    memoryPercent: limits.program_memory,
    files: limits.program_files,
    cpuSeconds: limits.program_cpu === null ? null : Math.ceil(limits.program_cpu / 1000),
    fileBytes: limits.program_file_size,
  };
}

/** What a program, its shell or Rnix prints when a limit of one process is reached. */
const SIGNS = {
  files: /Too many open files|\bEMFILE\b/,
  cpu: /CPU time limit exceeded|\bSIGXCPU\b|^\[exit code 152\]$/m,
  file_size: /File size limit exceeded|File too large|\bEFBIG\b|\bSIGXFSZ\b|^\[exit code 153\]$/m,
};
const MAX_CHARS = 64 * 1024;

/** `hits`: limits of all programs together. `output`: what they have printed. "" without a limit that was reached. */
export function hitsText(
  hits: readonly LimitKind[],
  output: string,
  limits: Pick<Limits, ProgramLimitName>,
): string {
  const { files, cpuSeconds, fileBytes } = programLimits(limits);
  // A lower limit of the user is not ours.
  const isOurs = (libc()?.limit(RLIMITS.files)?.soft ?? 0n) >= BigInt(files);
  const end = output.slice(-MAX_CHARS);
  const each = (["files", "cpu", "file_size"] as const).filter(
    (kind) => SIGNS[kind].test(end) && (kind !== "files" || isOurs),
  );
  const texts: Record<LimitKind, string> = {
    processes: `programs have reached the limit of ${limits.program_processes} processes (program_processes)`,
    memory: `programs were ended at the limit of ${limits.program_memory} % of the memory (program_memory)`,
    files: `a program has reached the limit of ${files} open files (program_files)`,
    cpu: `a program was ended at the limit of ${cpuSeconds} s of processor time (program_cpu)`,
    file_size: `a program has reached the limit of ${fileBytes} bytes for a file (program_file_size)`,
  };
  return [...hits, ...each].map((hit) => `\n[${texts[hit]}]`).join("");
}
