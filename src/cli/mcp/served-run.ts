/** Follows a run for an MCP client: its progress, its end, and its kill when the call is cancelled. */

import { fromWire, type Stream } from "../../client/client.ts";
import { SIGTERM } from "../../lib/signals.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Session } from "../io.ts";

/** Clients take silence for the end of a call: they get what the run does at least this often. */
const PROGRESS_MS = 15_000;

export interface RunPorts {
  session: Session;
  /** The client has cancelled the call, or is gone. */
  signal: AbortSignal;
  progress(message: string): void;
}

/** Returns the receipt at the run's end. Cancelling the call ends the run, with all that it has spawned. */
export async function runToEnd(stream: Stream<"spawn">, ports: RunPorts): Promise<Receipt> {
  const { uuid, pid } = stream.answer;
  const { signal, session } = ports;
  const killed = Promise.withResolvers<unknown>();
  const kill = async (): Promise<unknown> =>
    (await session.connect()).request("signal_tree", { uuid, signal: SIGTERM });
  const cancel = (): void => void kill().then(killed.resolve, killed.reject);
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  let doing = `process ${pid}`;
  const timer = setInterval(() => ports.progress(doing), PROGRESS_MS);
  try {
    for await (const event of stream) {
      if (event.type === "complete") return event.payload;
      if (event.type === "error")
        throw fromWire({ code: event.payload.code, message: event.payload.error_message });
      const text = progressText(event);
      if (text === undefined) continue;
      doing = text;
      ports.progress(doing);
    }
    throw new SyscallError("UNAVAILABLE", `Process ${pid} has no end: the daemon closed its stream.`);
  } finally {
    clearInterval(timer);
    signal.removeEventListener("abort", cancel);
    if (signal.aborted) await killed.promise;
  }
}

function progressText({ type, payload }: StreamEvent): string | undefined {
  if (type !== "progress") return undefined;
  if (payload.event === "step") return `step ${payload.step}`;
  if (payload.event === "activity") return payload.activity.text;
  return payload.event === "notice" ? payload.text : undefined;
}
