/** The rule that an untrusted agent or skill of a project does not replace the user's or the stock one of its name. */

import { SyscallError } from "../../plugin/index.ts";
import type { Tier } from "../config-sources.ts";
import type { TrustView } from "./trust.ts";

/** An agent or skill that has not been read yet. */
interface Source {
  name: string;
  /** Its path, or "embedded". */
  source: string;
  tier: Tier;
  isThere(): boolean;
  /** null when the file does not exist. */
  content(): string | null;
}

/** Returns the user's or stock one of the same name, if this one must not replace it; undefined if it may be used. */
export function outrankedBy<S extends Source>(
  found: Source,
  sameName: readonly S[],
  trust: TrustView,
): S | undefined {
  if (found.tier !== "project" || !found.isThere()) return undefined;
  const known = knownAmong(sameName);
  if (!known) return undefined;
  const takes = trust.allowsPart(found.source, "name", found.name) && !isSame(found, known);
  return takes ? undefined : known;
}

/** Returns the first one that does not need trust. */
export function knownAmong<S extends Source>(sameName: readonly S[]): S | undefined {
  return sameName.find((one) => one.tier !== "project" && one.isThere());
}

/** One that can't be read counts as different. */
export function isSame(found: Source, known: Source): boolean {
  try {
    return found.content() === known.content();
  } catch (error) {
    if (error instanceof SyscallError) return false;
    throw error;
  }
}

/** Returns "your agent" or "the stock agent". */
export function ownerText({ tier }: Source, kind: "agent" | "skill"): string {
  return tier === "user" ? `your ${kind}` : `the stock ${kind}`;
}

export function notInPlaceOf({ name, source }: Source, known: Source, kind: "agent" | "skill"): string {
  return `${source} (it does not replace ${ownerText(known, kind)} ${name})`;
}
