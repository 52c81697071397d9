/** The conversations of a project, and the commands that change to another: /fork, /resume and /new. */

import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { formatCost, formatElapsed, oneLine, plural } from "../output/format.ts";
import { target } from "../target.ts";
import type { ChatActions, PastRun } from "./actions.ts";

/** Conversations offered by /resume. */
const MAX_RESUMABLE = 200;
const INTENT_WIDTH = 200;

export async function fork(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) throw new SyscallError("INVALID", "there is no conversation to fork yet");
  const origin = chat.uuid;
  const { uuid } = await chat.link.fork(origin);
  await chat.change({ uuid, state: "live" });
  chat.print(`this is a copy: ${uuid}\nthe original stays as it is: /resume ${origin}`);
}

export async function resume(chat: ChatActions, args: string): Promise<void> {
  if (args !== "") {
    const info = await chat.link.request("show", target(chat.io, args.split(/\s/)[0] ?? ""));
    await chat.change(pastRun(info));
    return;
  }
  const runs = (await conversations(chat)).filter(({ uuid }) => uuid !== chat.uuid);
  if (runs.length === 0) {
    chat.print("there is no other conversation in this project");
    return;
  }
  const choices = runs.map((info) => ({
    value: info,
    label: titleOf(info),
    about: sideOf(info, Date.now()),
  }));
  const chosen = await chat.pick("Continue which conversation?", choices);
  if (chosen !== null) await chat.change(pastRun(chosen));
}

export async function resumeValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const now = Date.now();
  return (await conversations(chat)).map((info) => ({
    value: info.uuid,
    about: `${sideOf(info, now)}  ${titleOf(info)}`,
  }));
}

/** The project's conversations, the one used last first. */
export async function conversations(chat: Pick<ChatActions, "link" | "io">): Promise<ProcInfo[]> {
  const { processes } = await chat.link.request("list_all_procs", { cwd: chat.io.cwd });
  return processes
    .filter((info) => info.chat && info.parent_uuid === null && !info.foreign)
    .toSorted((a, b) => lastUsed(b) - lastUsed(a))
    .slice(0, MAX_RESUMABLE);
}

export function pastRun({
  uuid,
  state,
  ended_at_ms,
}: Pick<ProcInfo, "uuid" | "state" | "ended_at_ms">): PastRun {
  if (state === "suspended") return { uuid, state: "suspended" };
  return { uuid, state: ended_at_ms === null ? "live" : "ended" };
}

function lastUsed({ ended_at_ms, created_at_ms }: ProcInfo): number {
  return ended_at_ms ?? Math.max(created_at_ms, Date.now());
}

function titleOf({ intent }: ProcInfo): string {
  return oneLine(intent, INTENT_WIDTH) || "(no message yet)";
}

function sideOf(info: ProcInfo, now: number): string {
  const age =
    info.ended_at_ms === null ? "live" : `${formatElapsed(Math.max(0, now - info.ended_at_ms))} ago`;
  return [
    age,
    plural(info.steps, "step"),
    ...(info.cost_usd === null ? [] : [formatCost(info.cost_usd)]),
  ].join(", ");
}

export async function begin(chat: ChatActions): Promise<void> {
  const { uuid } = chat;
  await chat.begin();
  chat.print(
    uuid === null
      ? "this is a new conversation"
      : `your next message begins a new conversation; /resume ${uuid} returns`,
  );
}
