/** The method unit_output. */

import { z } from "zod";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findUnit } from "./shared/find-unit.ts";

/** The newest output of a background unit of a live process, also of one that has ended. */
export const unitOutput = method({
  payload: () => z.object({ id: z.string() }),
  async handle({ id }, services, caller): Promise<ProcRef & { unit: DaemonSnapshot; text: string }> {
    const proc = await findUnit(services, id, caller.unit(), "read");
    const { snapshot, text } = await services.kernel.units.output(id);
    return { ...proc, unit: snapshot, text };
  },
});
