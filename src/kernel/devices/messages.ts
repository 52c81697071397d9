/** The tools SendMessage and ReadMessages. */

import { READ_MESSAGES, SEND_MESSAGE } from "../../vfs/kernel-paths.ts";
import { ENTRY_BYTES } from "../ipc/inbox.ts";
import { messagesText } from "../ipc/wording.ts";
import type { IpcManager } from "../ipc-manager.ts";
import type { KernelTool } from "./tool-device.ts";

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
      input: {
        type: "object",
        properties: {
          to: { type: ["string", "integer"], description: 'PID, UUID or "parent".' },
          message: { type: "string", minLength: 1, description: `At most ${ENTRY_BYTES} bytes.` },
        },
        required: ["to", "message"],
        additionalProperties: false,
      },
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
      input: {
        type: "object",
        properties: {
          wait_ms: {
            type: "integer",
            minimum: 0,
            description: "0 only looks. Default and maximum: the tool time limit.",
          },
        },
        additionalProperties: false,
      },
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
