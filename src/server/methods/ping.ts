/** The method ping. */

import { z } from "zod";
import type { PingPayload } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { identityOf } from "./shared/identity.ts";

/** Answers that the server is alive, with its identity, so that a client can detect another version. */
export const ping = method({
  payload: () => z.object({ started: z.boolean().optional() }),
  async handle({ started }, services): Promise<PingPayload> {
    if (started) await services.init?.started();
    return identityOf(services);
  },
});
