/** The method send_message: a message of the user to a run. */

import { z } from "zod";
import type { MessageKey } from "../../kernel/chat/chat-control.ts";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { readAttachments } from "../plan/attachments.ts";
import { method } from "./method.ts";
import { deliverMessage } from "./shared/deliver-message.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

const SendMessageRequest = () =>
  Target().extend({
    text: z.string().min(1),
    /** Files to attach, absolute: their text, or an image. */
    files: z.array(z.string()).max(100).optional(),
    /** When the model gets it: with its next step (default), or when its present answer is complete. */
    when: z.enum(["next_step", "after_answer"]).optional(),
    /** A message that is sent again with its key is taken once: the answer has the `seq` of the first. */
    key: z.string().min(1).max(128).optional(),
    /** Used if the run is suspended, as in `resume`. */
    env: z.record(z.string(), z.string()).optional(),
    attended: z.boolean().optional(),
  });

/**
 * Sends a message of the user to a live run, or to a suspended one that waits for a message and is resumed by it. It is
 * durable when the answer comes.
 */
export const sendMessage = method({
  payload: SendMessageRequest,
  async handle(payload, services, caller): Promise<ProcRef & { seq: number }> {
    const unit = caller.unit();
    const found = await findOwnAgent(services, payload, unit, "sent a message");
    if (unit !== undefined) requireOther(unit, found.info.uuid, payload.files);
    const { files = [], env, attended, key, when = "next_step" } = payload;
    const attached = await readAttachments(services.clock, files);
    const [folder] = attached.folders;
    if (folder !== undefined) {
      const message = `files: ${folder} is a folder, which can't be attached to a message. Name it in the text; the run's rights decide whether it may read it.`;
      throw new SyscallError("INVALID", message);
    }
    const text = attached.text === undefined ? payload.text : `${payload.text}\n\n${attached.text}`;
    const message = {
      text,
      when,
      images: attached.images,
      key: key === undefined ? undefined : keyOf(key, payload, unit),
    };
    return deliverMessage(services, found, message, { env, attended, mayResume: unit === undefined });
  },
});

/** A program of a run uses up no key of its user. */
function keyOf(
  key: string,
  { text, files = [], when }: Pick<z.infer<ReturnType<typeof SendMessageRequest>>, "text" | "files" | "when">,
  unit: string | undefined,
): MessageKey {
  const digest = Bun.hash(JSON.stringify([text, files, when ?? "next_step"])).toString(36);
  return { key: unit === undefined ? key : `${unit} ${key}`, digest };
}

/** A run must not speak to itself as its user, nor attach files that its rights do not cover. */
function requireOther(unit: string, uuid: string, files: readonly string[] = []): void {
  if (unit === uuid) {
    const message = `A message counts as the user's own word, and this run (${unit}) can't send one to itself. Send it from your own terminal.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (files.length === 0) return;
  const message =
    "files: a message that is sent from inside a run can't have attachments. Name the files in its text.";
  throw new SyscallError("PERMISSION", message);
}
