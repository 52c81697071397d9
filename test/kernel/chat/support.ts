import { expect } from "bun:test";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import type { LLMRequest } from "../../../src/plugin/index.ts";
import { type KernelHarness, type Model, says } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** The conversation of a request, as roles and texts. */
export function said(request: LLMRequest | undefined): string[] {
  return (request?.messages ?? []).map(({ role, content }) => `${role}: ${content}`);
}

/** A model that repeats the last message of the user. */
export const parrot: Model = ({ messages }) =>
  says(`re: ${messages.findLast(({ role }) => role === "user")?.content}`);

/** Until the run waits for a message. */
export function waits(h: KernelHarness, pid: number): Promise<void> {
  return until(() => h.kernel.chats.waits(pid), "the run waits for a message");
}

/** Sends a message of the user, and returns its number. */
export async function send(
  h: KernelHarness,
  pid: number,
  text: string,
  when: "next_step" | "after_answer" = "next_step",
) {
  return (await h.kernel.chats.send(pid, { text, when })).seq;
}

/** Ends a chat that waits, or is about to. */
export async function end(h: KernelHarness, pid: number): Promise<ProcInfo> {
  await waits(h, pid);
  expect(await h.kernel.chats.end(pid)).toEqual({ ended: true });
  return (await h.follow(pid)).info;
}
