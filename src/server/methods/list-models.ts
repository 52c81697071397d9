/** Lists the models of providers, with windows and prices. */

import { z } from "zod";
import { ProjectRequest } from "../../protocol/project.ts";
import type { ModelsAnswer } from "../catalog/list-models.ts";
import { method } from "./method.ts";
import { requireUser } from "./shared/refuse-inside.ts";

/** How long services are waited for. */
const WAIT_MS = 1000;
const MAX_WAIT_MS = 60_000;

export const listModels = method({
  payload: () =>
    ProjectRequest().extend({
      provider: z.string().min(1).optional(),
      /** As in providers.yaml, tried before it is written; null removes a key. */
      entry: z.record(z.string(), z.unknown()).optional(),
      wait_ms: z.int().min(0).max(MAX_WAIT_MS).optional(),
    }),
  async handle({ provider, entry, wait_ms, ...project }, { catalog }, caller): Promise<ModelsAnswer> {
    if (entry !== undefined) requireUser(caller, "try a provider's entry");
    // A program inside a run could name an address in its environment, and have the user's key sent there.
    const waitMs = caller.unit() === undefined ? (wait_ms ?? WAIT_MS) : 0;
    return (await catalog()).models(project, { provider, entry, waitMs });
  },
});
