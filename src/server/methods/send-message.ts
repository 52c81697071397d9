/** The method send_message: a message of the user to a run. */

import { z } from "zod";
import type { OutgoingMessage } from "../../kernel/chat/chat-control.ts";
import { requireSame } from "../../kernel/ipc/inbox.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { ResendKey, refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { readAttachments } from "../plan/attachments.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";
import { type FoundRun, findRun } from "./shared/find-run.ts";
import { messageKey } from "./shared/message-key.ts";
import { whileTaken } from "./shared/while-taken.ts";

const SendMessageRequest = () =>
  Target().extend({
    text: z.string().min(1),
    /** Files to attach, absolute: their text, or an image. */
    files: z.array(z.string()).max(100).optional(),
    /** When the model gets it: with its next step (default), or when its present answer is complete. */
    when: z.enum(["next_step", "after_answer"]).optional(),
    key: ResendKey().optional(),
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
      key: messageKey(key, payload, unit),
    };
    return deliverMessage(services, found, message, { env, attended, mayResume: unit === undefined });
  },
});

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

interface Sender {
  /** The environment for a resume, as in `resume`. */
  env?: Record<string, string>;
  attended?: boolean;
  /** A program inside a run resumes no other. */
  mayResume: boolean;
}

/**
 * Returns where the message is: the process that reads it, and its number, also if it has arrived before. Fails with INVALID if the run has ended, or is
 * suspended and waits for something else than a message.
 */
async function deliverMessage(
  services: Services,
  first: FoundRun,
  message: OutgoingMessage,
  sender: Sender,
): Promise<ProcRef & { seq: number }> {
  const { uuid } = first.info;
  let found = first;
  const send = () =>
    found.live ? toLiveRun(services, found, message, sender) : byResume(services, found, message, sender);
  return whileTaken(services, send, async (thrown) => {
    const before = found;
    found = await findRun(services, { uuid });
    return isTaken(before, found, thrown);
  });
}

/** Whether the run is being suspended, or another message or client is resuming it. */
function isTaken(before: FoundRun, now: FoundRun, thrown: unknown): boolean {
  if (!(thrown instanceof SyscallError)) return false;
  if (before.live) return thrown.code === "CLOSED" && now.info.exit_reason === "suspended";
  return now.live || before.run.records.claimant(before.info.uuid) !== null;
}

async function toLiveRun(
  services: Services,
  { pid, info }: FoundRun & { live: true },
  message: OutgoingMessage,
  sender: Sender,
): Promise<ProcRef & { seq: number }> {
  const { seq, suspended } = await services.kernel.chats.send(pid, message);
  if (!suspended || !sender.mayResume) return { ...refOf(info), seq };
  // It was being suspended: the message waits in its inbox, and the run is resumed to read it.
  const { pid: again } = await resume(services, info, undefined, sender);
  return { pid: again, uuid: info.uuid, seq };
}

async function byResume(
  services: Services,
  { info, run }: FoundRun & { live: false },
  message: OutgoingMessage,
  sender: Sender,
): Promise<ProcRef & { seq: number }> {
  const { keys, unread } = await run.records.inbox(info.uuid);
  const keyed = message.key && keys.get(message.key.key);
  if (keyed) {
    const before = requireSame(keyed, message.key?.digest);
    const waits = sender.mayResume && unread.some(({ seq }) => seq === before);
    const { pid } = waits ? await resume(services, info, undefined, sender) : info;
    return { pid, uuid: info.uuid, seq: before };
  }
  requireWaiting(info);
  if (!sender.mayResume) {
    const message = `PID ${info.pid} is suspended, and a run can't be resumed from inside another. Send the message from your own terminal.`;
    throw new SyscallError("PERMISSION", message);
  }
  const { pid, seq } = await resume(services, info, message, sender);
  if (seq === undefined) throw new SyscallError("INTERNAL", "A run was resumed without its message.");
  return { pid, uuid: info.uuid, seq };
}

async function resume(
  services: Services,
  { uuid }: ProcInfo,
  message: OutgoingMessage | undefined,
  { env, attended }: Sender,
): Promise<{ pid: number; seq?: number }> {
  const run = await (await services.history()).byUuid(uuid);
  if (!run) throw new SyscallError("NOT_FOUND", `Nothing is on disk of run ${uuid}.`);
  const { agent, opts, notices } = await services.planResume(run, { env, attended, stream: true });
  const input = message && { input: message.text, images: message.images, key: message.key };
  return services.kernel.lifecycle.resume(uuid, agent, { ...opts, notices }, input);
}

function requireWaiting({ uuid, state, chat, suspended, exit_reason, pid }: ProcInfo): void {
  const command = `rnix resume ${uuid} "…"`;
  if (state !== "suspended") {
    const message = `PID ${pid} has ended (${exit_reason}) and reads no messages. To continue it with one: ${command}`;
    throw new SyscallError("INVALID", message);
  }
  // A run that waits for its units reads a message, too, and its units go on.
  if (chat || suspended?.wake.on === "message" || suspended?.wake.on === "unit") return;
  const message = `PID ${pid} is suspended and does not wait for a message. To resume it with one: ${command}`;
  throw new SyscallError("INVALID", message);
}
