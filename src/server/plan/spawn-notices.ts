/** What a run goes without, and why: shown to the user at its start. */

import type { Agent } from "../../config/agents/agents.ts";
import type { Project } from "../../config/project/project.ts";
import { keyOf, namesWith } from "../../options/option-list.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

/** Parts of an untrusted project's agent that are left out, except those that flags replace. */
export function withheldOf({ name, source, withheld, allowedTools }: Agent, request: PlacedSpawn): string[] {
  const given = namesWith({ agent: true }).filter((name) => request[name] !== undefined);
  const replaced = new Set<string>(given.map((name) => keyOf(name)));
  if (request.allow) replaced.add("allowed_tools");
  return withheld
    .filter(({ key }) => !replaced.has(key))
    .map(({ key, says }) => {
      const instead = key === "allowed_tools" ? ` (it may use ${allowedTools.join(", ") || "none"})` : "";
      return `${says} of the agent ${name} in ${source}${instead}`;
    });
}

/** One notice about all parts that need trust. */
export function untrustedNotice(parts: readonly string[], ofBase: boolean): string[] {
  if (parts.length === 0) return [];
  const what = parts.length === 1 ? "it" : "them";
  const how = ofBase
    ? `--trust trusts ${what} for this run, as the base has ${what}`
    : `\`rnix trust\` shows and trusts ${what}`;
  return [`not trusted, so left out: ${parts.join("; ")}. ${how}.`];
}

export function readOnlyNotice({ dir, dataDir, unwritableDataDir }: Project): string[] {
  if (unwritableDataDir === undefined) return [];
  return [`${dir} can't be written: the record of the run is in ${dataDir}. --record DIR keeps it elsewhere`];
}
