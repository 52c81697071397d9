import { z } from "zod";
import type { PingPayload } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { identityOf } from "./shared/identity.ts";

/** Liveness, and who it is that lives: a client of another version can say so. */
export const ping = method({
  payload: () => z.object({ started: z.boolean().optional() }),
  async handle({ started }, services): Promise<PingPayload> {
    if (started) await services.init.started();
    return identityOf(services);
  },
});
