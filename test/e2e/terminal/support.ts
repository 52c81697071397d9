import { expect } from "bun:test";
import type { TerminalSession } from "../../support/terminal.ts";
import { ChatClient, type Event } from "../support/chat-client.ts";
import type { Machine } from "../support/machine.ts";

export const ENTER = "\r";
export const ESCAPE = "\x1b";
export const DOWN = "\x1b[B";
export const CTRL_C = "\x03";
export const CTRL_D = "\x04";
export const CTRL_R = "\x12";
export const CTRL_S = "\x13";
export const ALT_ENTER = "\x1b\r";
export const ALT_UP = "\x1b[1;3A";
/** The input line is there. */
export const READY = /^❯/m;
/** It is empty, and nothing is below it. */
export const EMPTY_LINE = /^❯\s*$/m;

/** The message has arrived at its run: a terminal shows it before that. */
export async function hasArrived(machine: Machine, text: string, pid = 1): Promise<void> {
  using client = new ChatClient(machine);
  await client.follow("attach", { pid });
  const isIt = ({ payload }: Event) => payload.event === "message" && String(payload.text).includes(text);
  await client.has(isIt, `the arrival of ${text}`);
}

/** A conversation that is ready for its next message. */
export async function chat(
  machine: Machine,
  flags: string[] = [],
  o?: Parameters<Machine["terminal"]>[1],
): Promise<TerminalSession> {
  const terminal = machine.terminal(["chat", ...flags], o);
  await terminal.until(READY);
  return terminal;
}

/** Leaves a conversation, and returns what is then on the terminal. */
export async function leave(terminal: TerminalSession): Promise<string> {
  terminal.type(CTRL_D);
  const { code } = await terminal.done;
  expect(code).toBe(0);
  return terminal.screen.transcript;
}

/** The user's messages of a request, as the model gets them. */
export function asked(request: { body: unknown } | undefined): string[] {
  if (request === undefined) return [];
  const { messages } = request.body as { messages: { role: string; content: unknown }[] };
  const textOf = (content: unknown): string =>
    typeof content === "string" ? content : JSON.stringify(content);
  return messages.flatMap(({ role, content }) => (role === "user" ? [textOf(content)] : []));
}
