import { SyscallError } from "../../plugin/index.ts";
import { ENTRY_BYTES } from "../ipc/inbox.ts";
import type { IpcManager } from "../ipc/ipc-manager.ts";
import { messagesText } from "../ipc/wording.ts";
import type { KernelTool } from "./tool-device.ts";

/** ReadMessages answers so much before its call's deadline: nothing having come is no failure. */
const MARGIN_MS = 1_000;
/** Characters. Never cut: what the result tells is acknowledged. Messages of 64 KiB together, or one of that, and frames. */
const MAX_RESULT = 1024 * 1024;

export function sendMessage(ipc: () => IpcManager): KernelTool {
  return {
    path: "/dev/kernel/send_message",
    tool: {
      name: "SendMessage",
      description:
        "Send a text to another process of this project: to the one that spawned you, to one you spawned, or to one that wrote to you. It is told it at its next step, or by ReadMessages. The answer, if there is one, reaches you in the same ways.",
      input: {
        type: "object",
        properties: {
          to: {
            type: ["string", "integer"],
            description: 'The PID or the UUID of the process, or "parent" for the one that spawned you.',
          },
          message: {
            type: "string",
            minLength: 1,
            description: `The text, at most ${ENTRY_BYTES} bytes. What is longer goes into a file whose path you send.`,
          },
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
    path: "/dev/kernel/read_messages",
    tool: {
      name: "ReadMessages",
      description:
        "Read the messages that other processes have sent you, waiting for the first one. Messages also reach you without it, at your next step: call it when you can do nothing before one comes.",
      input: {
        type: "object",
        properties: {
          wait_ms: {
            type: "integer",
            minimum: 0,
            description:
              "How long to wait for the first message, in ms; 0 only looks. By default, and at most, as long as a tool may take.",
          },
        },
        additionalProperties: false,
      },
      maxResult: MAX_RESULT,
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    async run({ proc, input, call, signal }) {
      if (!call) {
        throw new SyscallError(
          "INVALID",
          "ReadMessages is a tool's device; a program takes messages by Recv.",
        );
      }
      const longest = Math.max(0, call.deadlineMs - MARGIN_MS);
      const wait = typeof input.wait_ms === "number" ? Math.min(input.wait_ms, longest) : longest;
      const { messages, left } = await ipc().recvForCall(proc, call.id, wait, signal);
      return messages.length > 0 ? messagesText(messages, left) : `No message came within ${wait} ms.`;
    },
  };
}
