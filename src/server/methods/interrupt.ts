/** The method interrupt. */

import type { Interrupted } from "../../kernel/chat/chat-control.ts";
import { SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/**
 * Cancels the model call or the tool calls of a run; then it waits for a message. Answers when they have ended. A second
 * request meanwhile ends programs without grace. Nothing happens when none is under way.
 */
export const interrupt = method({
  payload: Target,
  async handle(payload, services, caller): Promise<ProcRef & Interrupted> {
    const unit = caller.unit();
    const found = await findOwnAgent(services, payload, unit, "interrupted");
    const ref = refOf(found.info);
    if (unit === ref.uuid) {
      throw new SyscallError("PERMISSION", `PID ${ref.pid} can't interrupt itself.`);
    }
    if (!found.live) return { ...ref, interrupted: null, text_seen: false, put_back: [] };
    return { ...ref, ...(await services.kernel.chats.interrupt(found.pid)) };
  },
});
