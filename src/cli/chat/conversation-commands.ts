/** The conversations of a project, and the commands that name one or change to another: /name, /fork, /resume and /new. */

import type { ProcInfo } from "../../kernel/types.ts";
import { recordedMode } from "../../lib/ask-modes.ts";
import { usageError } from "../exit.ts";
import { cut, formatCost, formatElapsed, oneLine, plural } from "../output/format.ts";
import { target } from "../processes/target.ts";
import type { ChatActions, PastRun } from "./actions.ts";
import { withoutAttachments } from "./outbox.ts";

const MAX_RESUMABLE = 200;
const INTENT_WIDTH = 200;
/** Columns of a beginning that several have. */
const TITLE_WIDTH = 30;
/** Conversations of the same beginning whose last message is looked for. */
const MAX_ALIKE = 20;

export async function name(chat: ChatActions, args: string): Promise<void> {
  if (chat.uuid === null) throw usageError("there is no conversation to name yet");
  const named = oneLine(args, INTENT_WIDTH);
  if (named === "") throw usageError("/name needs a name");
  chat.names.set(chat.uuid, named);
  chat.print(`name: ${named}`);
}

export async function fork(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) throw usageError("there is no conversation to fork yet");
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
  if (runs.length === 0) return chat.print("there is no other conversation in this project");
  const titles = await titlesOf(chat, runs);
  const choices = runs.map((info) => ({
    value: info,
    label: titles.get(info.uuid) ?? "",
    about: sideOf(info, Date.now()),
  }));
  const chosen = await chat.pick("Continue which conversation?", choices);
  if (chosen !== null) await chat.change(pastRun(chosen));
}

export async function resumeValues(chat: ChatActions): Promise<{ value: string; about: string }[]> {
  const now = Date.now();
  const names = chat.names.load();
  return (await conversations(chat)).map((info) => ({
    value: info.uuid,
    about: `${sideOf(info, now)}  ${names.get(info.uuid) ?? titleOf(info)}`,
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

type KnownRun = Pick<ProcInfo, "uuid" | "state" | "ended_at_ms" | "permissions" | "asks">;

export function pastRun({ uuid, state, ended_at_ms, permissions, asks }: KnownRun): PastRun {
  const mode = recordedMode(permissions);
  if (state === "suspended") return { uuid, state: "suspended", mode, question: asks[0]?.id };
  return { uuid, state: ended_at_ms === null ? "live" : "ended", mode };
}

function lastUsed({ ended_at_ms, created_at_ms }: ProcInfo): number {
  return ended_at_ms ?? Math.max(created_at_ms, Date.now());
}

/** A fork begins as its origin: the last message tells them apart, where the user has given no name. */
async function titlesOf(chat: ChatActions, runs: readonly ProcInfo[]): Promise<Map<string, string>> {
  const titles = chat.names.load();
  const unnamed = runs.filter(({ uuid }) => !titles.has(uuid));
  for (const [title, alike] of Map.groupBy(unnamed, titleOf))
    for (const [at, { uuid, origin_uuid }] of alike.entries()) {
      const isOne = alike.length === 1 && origin_uuid === null;
      const last = isOne || at >= MAX_ALIKE ? "" : await lastAsked(chat, uuid);
      titles.set(uuid, last === "" || last === title ? title : `${cut(title, TITLE_WIDTH)} … ${last}`);
    }
  return titles;
}

async function lastAsked({ link }: ChatActions, uuid: string): Promise<string> {
  let last = "";
  await link.log(uuid, ({ kind, text }) => {
    if (kind === "inbox") last = oneLine(withoutAttachments(text), INTENT_WIDTH) || last;
  });
  return last;
}

function titleOf({ intent }: ProcInfo): string {
  return oneLine(intent, INTENT_WIDTH) || "(no message yet)";
}

function sideOf(info: ProcInfo, now: number): string {
  const age =
    info.ended_at_ms === null ? "live" : `${formatElapsed(Math.max(0, now - info.ended_at_ms))} ago`;
  return [
    ...(info.origin_uuid === null ? [] : ["fork"]),
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
