/** Lists the model providers, with the queues of their keys; `probe` asks each for one word. */

import { z } from "zod";
import type { ProviderWire } from "../../protocol/methods.ts";
import { ProjectRequest } from "../../protocol/project.ts";
import { method } from "./method.ts";
import { requireUser } from "./shared/refuse-inside.ts";

export const listProviders = method({
  payload: () => ProjectRequest().extend({ probe: z.boolean().optional() }),
  async handle(payload, { catalog, kernel }, caller) {
    if (payload.probe) requireUser(caller, "probe providers");
    const { providers, diagnostics } = await (await catalog()).providers(payload, {
      ask: payload.probe ?? false,
      // As in listModels: a run's program could have the key sent to an address of its own.
      lists: caller.unit() === undefined,
    });
    const inUse = Map.groupBy(kernel.modelQueues(), ({ provider }) => provider);
    const withQueues = providers.map((row): ProviderWire => {
      const queues = inUse.get(row.name)?.map(({ provider, ...queue }) => queue);
      return queues === undefined ? row : { ...row, queues };
    });
    return { providers: withQueues, diagnostics };
  },
});
