/** Brings a message of the user to a run: into its inbox, or by resuming it. */

import type { OutgoingMessage } from "../../../kernel/chat/chat-control.ts";
import { requireSame } from "../../../kernel/ipc/inbox.ts";
import type { ProcInfo } from "../../../kernel/types.ts";
import { SyscallError } from "../../../plugin/index.ts";
import { refOf } from "../../../protocol/fields.ts";
import type { ProcRef } from "../../../protocol/methods.ts";
import type { Services } from "../../services.ts";
import { type FoundRun, findRun } from "./find-run.ts";
import { whileTaken } from "./while-taken.ts";

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
export async function deliverMessage(
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
