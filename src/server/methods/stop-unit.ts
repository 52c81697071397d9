/** The method stop_unit. */

import { z } from "zod";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findUnit } from "./shared/find-own-run.ts";

/** Asks a background unit to end; answers with its state before that. Fails with CLOSED for one that has ended. */
export const stopUnit = method({
  payload: () => z.object({ id: z.string() }),
  async handle({ id }, services, caller): Promise<ProcRef & { unit: DaemonSnapshot }> {
    const proc = await findUnit(services, id, caller.unit(), "stopped");
    return { ...proc, unit: await services.kernel.units.stop(id) };
  },
});
