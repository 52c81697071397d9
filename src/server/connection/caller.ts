/** Finds out from which run a request comes. */

import type { ProcessOwner } from "../../os/process-owner.ts";
import { serviceBehind } from "../../os/service-behind.ts";
import { socketPeer } from "../../os/socket-peer.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Services } from "../services.ts";

/** The client that makes a request. */
export interface Caller {
  /**
   * Returns the run whose program is the client; undefined for a user's own client. What the system shows takes
   * precedence over the client's claim. Fails with PERMISSION when the run has ended or is unknown.
   */
  unit(): string | undefined;
  /** The service that has started the client, without a person who typed; see `serviceBehind`. */
  service(): string | null;
  /** Aborted when the client has disconnected. */
  gone: AbortSignal;
}

/** Returns the run to which a client belongs. `claimed` is the client's own claim. */
export type UnitOf = (claimed: string | undefined) => string | undefined;

/**
 * `descriptor` returns the client's socket. The client is identified once, at the first request that needs it. Where
 * the system shows nothing, the claim is used.
 */
export function unitOfClient(system: Services, descriptor?: () => number | undefined): UnitOf {
  let found: ProcessOwner | undefined;
  const look = (): ProcessOwner => {
    const { ownerOf } = system;
    if (!ownerOf || !descriptor) return "no run";
    const fd = descriptor();
    return fd === undefined ? "gone" : (socketPeer(fd, ownerOf) ?? "no run");
  };
  return (claimed) => {
    found ??= look();
    if (found === "no run") return claimed;
    if (typeof found === "object") return found.uuid;
    throw refused(found);
  };
}

/** See `Caller.service`. A client that has ended is refused by its unit. */
export function serviceOfClient(descriptor?: () => number | undefined): string | null {
  const fd = descriptor?.();
  return fd === undefined ? null : socketPeer(fd, serviceBehind);
}

const REFUSED = {
  "unknown run": "This request comes from inside a run that has ended or is unknown",
  "other kernel": "This request comes from inside a run of another rnix",
  gone: "The requesting program has ended, so its run is unknown",
} as const;

function refused(why: keyof typeof REFUSED): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `${REFUSED[why]}. Only a live run, within its own tree, or a terminal outside of runs may start or change runs.`,
  );
}
