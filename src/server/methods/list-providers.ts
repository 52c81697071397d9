import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

export async function listProviders(
  payload: Payload<"list_providers">,
  { catalog, kernel }: Services,
): Promise<Answers["list_providers"]> {
  const { providers, diagnostics } = await catalog.providers(payload, payload.probe ?? false);
  const inUse = Map.groupBy(kernel.modelQueues(), ({ provider }) => provider);
  const withQueues = providers.map((row) => {
    const queues = inUse.get(row.name)?.map(({ provider, ...queue }) => queue);
    return queues === undefined ? row : { ...row, queues };
  });
  return { providers: withQueues, diagnostics };
}
