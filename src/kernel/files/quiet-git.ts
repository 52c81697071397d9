/** The environment in which git reads a repository without running the programs that the repository names. */

import type { OpenAs } from "../permission/file-grant.ts";
import type { Process } from "../process/process.ts";

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
