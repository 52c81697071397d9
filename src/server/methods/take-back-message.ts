/** The method take_back_message. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/** Takes back a message of the user that the model has not read, and returns its text. */
export const takeBackMessage = method({
  payload: () => Target().extend({ seq: z.int().positive() }),
  async handle(payload, services, caller): Promise<ProcRef & { seq: number; text: string }> {
    const found = await findOwnAgent(services, payload, caller.unit(), "asked for a message");
    const ref = refOf(found.info);
    if (!found.live) {
      const message = `PID ${ref.pid} is not live: only a live run's messages can be taken back.`;
      throw new SyscallError("INVALID", message);
    }
    const { seq, text } = await services.kernel.chats.takeBack(found.pid, payload.seq);
    return { ...ref, seq, text };
  },
});
