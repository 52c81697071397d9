/** The method unit_output. */

import { z } from "zod";
import { type DaemonSnapshot, SyscallError } from "../../plugin/index.ts";
import { refOf } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { findOwnRun, findUnit } from "./shared/find-own-run.ts";

interface UnitOutput {
  unit: DaemonSnapshot;
  text: string;
}

/** The newest output of a background unit; of a process that is not live, what its record has. */
export const unitOutput = method({
  payload: () => z.object({ id: z.string() }),
  async handle({ id }, services, caller): Promise<ProcRef & UnitOutput> {
    try {
      const proc = await findUnit(services, id, caller.unit(), "read");
      const { snapshot, text } = await services.kernel.units.output(id);
      return { ...proc, unit: snapshot, text };
    } catch (thrown) {
      const isUnknown = thrown instanceof SyscallError && thrown.code === "NOT_FOUND";
      const found = isUnknown ? await recorded(services, id, caller.unit()) : undefined;
      if (found === undefined) throw thrown;
      return found;
    }
  },
});

async function recorded(
  services: Services,
  id: string,
  inside: string | undefined,
): Promise<(ProcRef & UnitOutput) | undefined> {
  const run = await (await services.history()).byUnit(id);
  if (!run) return undefined;
  const { info } = await findOwnRun(services, { uuid: run.info.uuid }, inside, "read");
  const { records: lines } = await run.records.units(run.info.uuid);
  const unit = recordedUnits(lines).find(({ snapshot }) => snapshot.id === id)?.snapshot;
  return unit && { ...refOf(info), unit, text: textOf(unit) };
}

/** Keys were redacted when the end was recorded. Of a unit without an end nothing is shown. */
function textOf({ kind, metadata }: DaemonSnapshot): string {
  switch (kind) {
    case "local_bash":
      return metadata.output;
    case "monitor":
      return metadata.recent_lines.join("\n");
    case "local_agent":
    case "dream":
    case "in_process_teammate":
    case "local_workflow":
      return metadata.summary;
    default:
      return "";
  }
}
