/** The method compact. */

import { SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/** Compacts the conversation of a live process before its next step; answers when that is done. */
export const compact = method({
  payload: Target,
  async handle(payload, services, caller) {
    const unit = caller.unit();
    const found = await findOwnAgent(services, payload, unit, "compacted");
    const ref = refOf(found.info);
    if (!found.live) {
      const message =
        found.info.state === "suspended"
          ? `PID ${found.info.pid} is suspended. Resume it first: rnix resume ${found.info.uuid}.`
          : `PID ${found.info.pid} has ended (${found.info.exit_reason}): there is nothing to compact.`;
      throw new SyscallError("INVALID", message);
    }
    // Its next step begins only when its program has ended, and that program waits for this request.
    if (unit === ref.uuid) {
      const message = `PID ${ref.pid} can't wait for its own compaction. Rnix compacts it without being asked when it becomes too long.`;
      throw new SyscallError("INVALID", message);
    }
    const { tokensBefore, tokensAfter, by } = await services.kernel.chats.compact(found.pid);
    return { ...ref, pre_tokens: tokensBefore, post_tokens: tokensAfter, summarised_by: by };
  },
});
