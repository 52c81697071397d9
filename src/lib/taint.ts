/** The taint of a run: it has read text that others wrote. */

/** From the laxest to the strictest. `auto`: `ask` where no person is at the run's terminal, else `off`. */
export const TAINT_POLICIES = ["off", "auto", "ask", "refuse"] as const;
export type TaintPolicy = (typeof TAINT_POLICIES)[number];

/** Absent: `auto`. */
export function stricterTaint(a: TaintPolicy = "auto", b: TaintPolicy = "auto"): TaintPolicy {
  return TAINT_POLICIES.indexOf(a) > TAINT_POLICIES.indexOf(b) ? a : b;
}

/** The first text of others that a run, or the run that began it, has read. */
export interface Taint {
  /** Such as `web`, `mcp` or `input`. */
  origin: string;
  /** The call, or the run, that brought it. */
  source: string;
  /** What becomes of a call that acts outside. */
  policy: Exclude<TaintPolicy, "auto">;
  /** All of it came from this device: the device's own tools are not asked for. */
  device?: string;
  /** Its programs are in a sandbox, and a list names all that their network reaches. */
  confined?: true;
}

/**
 * The device of a path, or the mount that it is of: `/mnt/mcp/notes` of `/mnt/mcp/3-notes/tools/add`, where 3 is the PID,
 * which a resume changes.
 */
export function taintingDevice(path: string): string {
  const parts = path.replace(/^(\/mnt\/[^/]+\/)\d+-/, "$1").split("/");
  return parts.slice(0, parts[1] === "mnt" ? 4 : 3).join("/");
}
