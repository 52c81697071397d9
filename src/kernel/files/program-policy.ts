/** Which processes may share a program: those whose own programs may do the same. */

import { isLimited } from "../../proxy/host-rules.ts";
import { textsOf } from "../permission/coverage.ts";
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
