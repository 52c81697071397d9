/** What the kernel sets for the programs of a run, and git without the repository's own programs. */

import { isLimited } from "../../proxy/host-rules.ts";
import { textsOf } from "../permission/coverage.ts";
import type { OpenAs } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";

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
