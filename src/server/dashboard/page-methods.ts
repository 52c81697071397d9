/** What only the page asks: methods that no client of the socket has. */

import { z } from "zod";
import { Uuid } from "../../protocol/fields.ts";
import { method } from "../methods/method.ts";

/** The agents and workflows that a run has started: Gantt bars beside its own. */
const children = method({
  payload: () => z.object({ uuid: Uuid() }),
  async handle({ uuid }, { history }) {
    const found = await history.childrenOf(uuid, 1000);
    return {
      children: found.map(({ uuid, agent, intent, created_at_ms, ended_at_ms, exit_code }) => ({
        ...{ uuid, agent, created_at_ms, ended_at_ms, exit_code },
        intent: intent.slice(0, 200),
      })),
    };
  },
});

/** As the table of methods. */
export const PAGE_METHODS = { children: async () => children };
