/** Grants or revokes rights of a live run, for `allow` and `deny`. */

import { realpathSync, statSync } from "node:fs";
import { isAbsolute } from "node:path";
import { z } from "zod";
import { SyscallError } from "../../../plugin/index.ts";
import { refOf, Target } from "../../../protocol/fields.ts";
import type { Caller } from "../../connection/connection.ts";
import type { Services } from "../../services.ts";
import { findLiveRun, requireLive } from "./find-run.ts";
import { refuseInside, requireTyped } from "./refuse-inside.ts";

/** Rules as in `allow` and `deny` of a spawn. */
const Rules = () => z.array(z.string().min(1).max(1_000)).max(100);
export const RightsRequest = () => Target().extend({ tools: Rules().min(1) });
/** `folders`: absolute; they are opened to the run beside its project. */
export const AllowRequest = () =>
  Target()
    .extend({
      tools: Rules(),
      folders: z.array(z.string().max(4096)).max(20).optional(),
      /** Calls of the tools need no question either, until the run ends. */
      unasked: z.boolean().optional(),
    })
    .refine(
      ({ tools, folders = [] }) => tools.length + folders.length > 0,
      "expected tools or folders, got none",
    );
type RightsRequest = z.infer<ReturnType<typeof RightsRequest>> & {
  folders?: string[];
  unasked?: boolean;
};

/** Changes what a live run may use. Refused inside a run; a service grants nothing on behalf of one. */
export async function changeRights(
  request: RightsRequest,
  services: Services,
  caller: Caller,
  how: "grant" | "revoke",
) {
  refuseInside(
    caller,
    (unit) =>
      `The rights of a run can't be changed from inside one (${unit}). Change them from your own terminal.`,
  );
  // A right, as an answer, lets a call be made.
  if (how === "grant") requireTyped(caller);
  const found = await findLiveRun(services, request, "given or denied tools");
  const pid = requireLive(found, "the rights");
  const { capabilities } = services.kernel;
  const { allowed, denied } =
    how === "grant"
      ? await capabilities.grant(pid, request.tools, undefined, request.folders?.map(realFolder))
      : await capabilities.revoke(pid, request.tools);
  if (how === "grant" && request.unasked) capabilities.allowUnasked(pid, request.tools);
  // The run may use nothing of `denied_tools`, whatever is allowed.
  return { ...refOf(found.info), allowed_tools: allowed, denied_tools: denied };
}

function realFolder(path: string): string {
  if (isAbsolute(path) && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return realpathSync(path);
  const message = `folders: expected the absolute path of a folder, got ${JSON.stringify(path)}.`;
  throw new SyscallError("INVALID", message);
}
