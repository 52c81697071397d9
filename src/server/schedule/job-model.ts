/** Checks the name of a job's model before its first run needs it. */

import { knownModels } from "../../config/providers/model-facts.ts";
import type { SpawnOpts } from "../../kernel/types.ts";
import { nearestName } from "../../lib/edit-distance.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";

/**
 * Fails with INVALID for a model that the service does not list, and for a misspelled name of the table of known models.
 * Returns a warning where no list has the name; null for a known model.
 */
export async function checkModel(
  { provider: choice, devices, project, cwd, env }: SpawnOpts,
  { models }: Pick<SpawnPorts, "models">,
): Promise<string | null> {
  if (choice === null || choice.plays) return null;
  const { contextWindow, maxOutput, outputLimit, price } = choice;
  if ([contextWindow, maxOutput, outputLimit, price].some((fact) => fact !== undefined)) return null;
  const { name, model, config } = choice;
  const entry = devices.namespace.entries().find(({ path }) => path === choice.device);
  const facts = entry?.device.provider;
  const known = knownModels({ url: config.base_url, driver: facts, extra: config.extra });
  const listed = facts?.listsModels
    ? await models(choice, devices.namespace, { project, cwd, env }).catch(unlisted)
    : null;
  const names = [...(listed ?? []).map(({ id }) => id), ...known];
  if (names.includes(model)) return null;
  const near = nearestName(model, names);
  const hint = near === undefined ? "" : ` Did you mean ${near}?`;
  if (listed !== null || near !== undefined)
    throw new SyscallError(
      "INVALID",
      `The provider ${name} has no model ${JSON.stringify(model)}.${hint} \`rnix models --provider ${name}\` lists its models.`,
    );
  return `no list of ${name} has the model ${JSON.stringify(model)}: the first run will show whether it exists`;
}

/** A service without a list, or one that does not answer now. */
function unlisted(error: unknown): null {
  if (error instanceof SyscallError) return null;
  throw error;
}
