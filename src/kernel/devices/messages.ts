/** The tools by which an agent sends messages, and waits for one. */

import { parseDuration } from "../../lib/duration.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { READ_MESSAGES, SEND_MESSAGE } from "../../vfs/kernel-paths.ts";
import { ENTRY_BYTES } from "../ipc/inbox.ts";
import { messagesText } from "../ipc/inboxes.ts";
import type { IpcManager } from "../ipc-manager.ts";
import { rfc, type ScheduledWakes, type WakeRequest } from "../lifetime/scheduled-wakes.ts";
import { inputOf, type KernelTool } from "./tool-device.ts";

/** ReadMessages returns this long before its deadline: no message is no failure. */
const MARGIN_MS = 1_000;
/** Maximum characters. Above every delivery (64 KiB and frames), because a truncated result would lose messages. */
const MAX_RESULT = 1024 * 1024;

export function sendMessage(ipc: () => IpcManager): KernelTool {
  return {
    path: SEND_MESSAGE,
    tool: {
      name: "SendMessage",
      description:
        "Send text to another process: your parent, a child or one that wrote to you. An answer reaches you at your next step or by ReadMessages. Read `/proc/{pid}/status` to see what it does.",
      input: inputOf(["to", "message"], {
        to: { type: ["string", "integer"], description: 'PID, UUID or "parent".' },
        message: { type: "string", minLength: 1, description: `At most ${ENTRY_BYTES} bytes.` },
      }),
    },
    async run({ proc, input }) {
      const to = typeof input.to === "number" ? input.to : String(input.to);
      return `The message is in the inbox of ${await ipc().sendTo(proc, to, String(input.message))}.`;
    },
  };
}

export function readMessages(ipc: () => IpcManager): KernelTool {
  return {
    path: READ_MESSAGES,
    tool: {
      name: "ReadMessages",
      description:
        "Wait for messages of other processes. They also reach you by themselves at your next step: call this when you can do nothing before one comes.",
      input: inputOf([], {
        wait_ms: {
          type: "integer",
          minimum: 0,
          description: "0 only looks. Default and maximum: the tool time limit.",
        },
      }),
      maxResult: MAX_RESULT,
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      const longest = Math.max(0, call.deadlineMs - MARGIN_MS);
      const wait = typeof input.wait_ms === "number" ? Math.min(input.wait_ms, longest) : longest;
      const { messages, left } = await ipc().recvForCall(proc, call.id, wait, signal);
      return messages.length > 0 ? messagesText(messages, left) : `No message came within ${wait} ms.`;
    },
  };
}

export function wake(wakes: () => ScheduledWakes): KernelTool {
  return {
    path: "/dev/kernel/wake",
    tool: {
      name: "Wake",
      description:
        "Wait until a time, a message or the report of a background unit, then continue here. Your run is suspended meanwhile: it costs nothing and uses none of its time. Returns the time and why you were woken.",
      input: inputOf([], {
        in: { type: "string", description: "How long, such as 30s, 10m, 2h or 1d." },
        at: { type: "string", description: "A time with its offset, such as 2027-01-05T09:00:00+01:00." },
        on: {
          enum: ["message", "unit"],
          description:
            "Wake at the next message, or report of a background unit, at the latest at that time.",
        },
      }),
      // The run waits without limit of the call.
      timeoutMs: Number.POSITIVE_INFINITY,
      defer: true,
      annotations: { idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      const waits = wakes();
      const why = await waits.wait(proc, call.id, () => requestOf(input, waits.now()), signal);
      return `${why} It is ${rfc(waits.now())}.`;
    },
  };
}

function requestOf(input: Record<string, unknown>, now: number): WakeRequest {
  const on = input.on === "message" || input.on === "unit" ? input.on : undefined;
  if (typeof input.in === "string" && typeof input.at === "string")
    throw new SyscallError("INVALID", "Wake: expected one of in and at, got both.");
  if (typeof input.in === "string") return { on, at_ms: now + durationOf(input.in) };
  if (typeof input.at === "string") return { on, at_ms: timeOf(input.at, now) };
  if (on) return { on };
  throw new SyscallError("INVALID", 'Wake: expected in, at or on, such as {"in": "10m"}.');
}

/** The shortest wait: a suspension and a resume take a moment. */
const MIN_MS = 1_000;

function durationOf(text: string): number {
  let ms: number;
  try {
    ms = parseDuration(text.trim(), Number.MAX_SAFE_INTEGER);
  } catch (cause) {
    throw new SyscallError("INVALID", `Wake: in: ${messageOf(cause)}`, { cause });
  }
  return Math.max(ms, MIN_MS);
}

const WITH_OFFSET = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)$/i;

function timeOf(text: string, now: number): number {
  const ms = WITH_OFFSET.test(text.trim()) ? Date.parse(text.trim().replace(" ", "T")) : Number.NaN;
  if (!Number.isNaN(ms)) return ms;
  throw new SyscallError(
    "INVALID",
    `Wake: at: expected a time with its offset, such as ${rfc(now + 3_600_000)} or 2027-01-05T09:00:00+01:00, got "${text}". Now it is ${rfc(now)}.`,
  );
}
