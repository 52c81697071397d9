/** Sends one word to a model and returns its answer and the cost. */

import { z } from "zod";
import type { TriedModelWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";
import { requireUser } from "./shared/refuse-inside.ts";

export const tryModel = method({
  payload: () =>
    ProjectRequest().extend({
      provider: z.string().min(1),
      model: z.string().min(1),
      /** As in providers.yaml, tried before it is written; null removes a key. */
      entry: z.record(z.string(), z.unknown()).optional(),
    }),
  async handle({ provider, model, entry, ...project }, { catalog }, caller): Promise<TriedModelWire> {
    requireUser(caller, "try a model");
    return (await catalog()).tryModel(project, { provider, model, entry });
  },
});
