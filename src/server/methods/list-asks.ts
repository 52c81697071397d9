/** The method list_asks: the open questions. */

import { z } from "zod";
import type { ListedAsk } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { openAsks } from "./shared/open-asks.ts";
import { refuseQuestions } from "./shared/refuse-inside.ts";

/** Lists the questions of all live and suspended runs that wait for an answer, oldest first. */
export const listAsks = method({
  payload: () => z.object({}),
  async handle(_payload, services, caller): Promise<{ asks: ListedAsk[] }> {
    refuseQuestions(caller);
    return { asks: await openAsks(services) };
  },
});
