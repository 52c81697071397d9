/** The method end_chat. */

import { SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/**
 * Ends a chat: at once if it waits for a message, else when its present answer and all waiting messages are done. Its
 * checks run at its end and decide its verdict. Answers whether it has ended.
 */
export const endChat = method({
  payload: Target,
  async handle(payload, services, caller): Promise<ProcRef & { ended: boolean }> {
    const found = await findOwnAgent(services, payload, caller.unit(), "ended");
    const ref = refOf(found.info);
    if (found.live) return { ...ref, ...(await services.kernel.chats.end(found.pid)) };
    const { state, exit_reason, pid, uuid } = found.info;
    if (state !== "suspended") {
      throw new SyscallError("INVALID", `PID ${pid} has ended (${exit_reason}) already.`);
    }
    const message = `PID ${pid} is suspended. Resume it to end it with its checks, or end it without them: rnix kill ${uuid}`;
    throw new SyscallError("INVALID", message);
  },
});
