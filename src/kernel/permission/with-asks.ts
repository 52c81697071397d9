/** Adds ask rules to the permissions of a process. */

import type { SpawnOpts } from "../types.ts";
import type { Permissions } from "./permissions.ts";

/** Adds the ask rules of a spawn or a resume, and what a person has allowed in the project. */
export function withAsks(rights: Permissions, opts: SpawnOpts, ofAgent: readonly string[] = []): Permissions {
  const { ask = [], askMode, alwaysAllowed = [], unasked = [] } = opts;
  return rights
    .asking([...ofAgent, ...ask], askMode)
    .allowAlways(unasked, "run")
    .allowAlways(alwaysAllowed, "project");
}
