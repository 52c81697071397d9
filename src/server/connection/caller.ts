import type { ProcessOwner } from "../../os/process-owner.ts";
import { socketPeer } from "../../os/socket-peer.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Services } from "../services.ts";

/** Who makes a request. */
export interface Caller {
  /**
   * The run it is made from: one of its programs is the client. What the system shows counts before what the client
   * says, which a program could choose. undefined for a person's. PERMISSION where no run can be held to it any more.
   */
  unit(): string | undefined;
  /** Aborted when the client has disconnected. */
  gone: AbortSignal;
}

/** Finds the run that a client belongs to. `claimed` is what the client says itself. */
export type UnitOf = (claimed: string | undefined) => string | undefined;

/**
 * `descriptor` gives the client's socket. The client is looked at once, when it is first asked about: whoever
 * only reads is not. Where nothing is to be seen, its word is all there is.
 */
export function unitOfClient(system: Services, descriptor?: () => number | undefined): UnitOf {
  let found: ProcessOwner | undefined;
  const look = (): ProcessOwner => {
    const { ownerOf } = system;
    if (!ownerOf || !descriptor) return "nobody's";
    const fd = descriptor();
    return fd === undefined ? "gone" : (socketPeer(fd, ownerOf) ?? "nobody's");
  };
  return (claimed) => {
    found ??= look();
    if (found === "nobody's") return claimed;
    if (typeof found === "object") return found.uuid;
    throw refused(found);
  };
}

const REFUSED = {
  left: "This request comes from inside a run that has ended or is unknown",
  "another kernel's": "This request comes from inside a run of another rnix",
  gone: "The requesting program has ended, so its run is unknown",
} as const;

function refused(why: keyof typeof REFUSED): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `${REFUSED[why]}. Only a live run, within its own tree, or a terminal outside of runs may start or change runs.`,
  );
}
