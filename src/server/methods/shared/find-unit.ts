/** Finds the live process that owns a background unit. */

import { refOf } from "../../../protocol/fields.ts";
import type { ProcRef } from "../../../protocol/methods.ts";
import type { Services } from "../../services.ts";
import { findOwnRun } from "./find-own-run.ts";

/**
 * Fails with NOT_FOUND for a unit of no live process, and with PERMISSION for one of a process that is not below
 * `inside`, the run from which the request comes.
 */
export async function findUnit(
  services: Services,
  id: string,
  inside: string | undefined,
  toDo: string,
): Promise<ProcRef> {
  const pid = services.kernel.units.ownerOf(id);
  const { info } = await findOwnRun(services, { pid }, inside, toDo);
  return refOf(info);
}
