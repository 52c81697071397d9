/** The commands /diff and /undo of a conversation. */

import { realpathSync } from "node:fs";
import { SyscallError } from "../../plugin/index.ts";
import { patchText, problemsText, refusedText, statText, undoText } from "../output/changes.ts";
import { plural } from "../output/format.ts";
import { changedFiles } from "../processes/changed-files.ts";
import type { ChatActions } from "./actions.ts";
import { YES_NO } from "./picker.ts";
import { wordsOf } from "./prompt-commands.ts";

/** A longer patch is shown as a list of files. */
const PATCH_LINES = 120;
const DIFF_MS = 60_000;
const UNDO_MS = 10 * 60_000;

export async function diff(chat: ChatActions, args: string): Promise<void> {
  const { uuid, files } = asked(chat, args);
  const found = await chat.link.request("diff", { uuid, files, patch: true }, { timeoutMs: DIFF_MS });
  const isShort = found.patch !== null && found.patch.split("\n").length <= PATCH_LINES;
  const text =
    isShort && found.patch !== null
      ? patchText(found.patch, chat.look)
      : `${statText(found, chat.io.stdout, chat.look)}\nrnix diff ${uuid} prints the patch`;
  const notes = problemsText(found).split("\n").slice(0, -1);
  const isUnchanged = found.files.length === 0;
  chat.printLines([
    ...notes,
    ...(isUnchanged ? ["The conversation has changed no files."] : text.split("\n")),
  ]);
}

/** Says what would be taken back, and asks first. */
export async function undo(chat: ChatActions, args: string): Promise<void> {
  const request = asked(chat, args);
  const planned = await chat.link.request("undo", { ...request, dry_run: true }, { timeoutMs: UNDO_MS });
  const undone = planned.files.filter(({ done }) => done !== "unchanged" && done !== "refused");
  const notes = [...planned.notes, ...planned.warnings].map((text) => `note: ${text}`);
  chat.printLines([
    ...notes,
    ...undoText(planned, chat.look).split("\n"),
    ...refusedText(planned, realpathSync(chat.io.cwd), chat.look).split("\n"),
  ]);
  if (undone.length === 0) return;
  const isAgreed = await chat.pick(`Take back the changes in ${plural(undone.length, "file")}?`, YES_NO);
  if (isAgreed !== true) return;
  const report = await chat.link.request("undo", request, { timeoutMs: UNDO_MS });
  chat.printLines([
    ...undoText(report, chat.look).split("\n"),
    `rnix undo ${request.uuid} --redo makes them again`,
  ]);
}

function asked(chat: ChatActions, args: string): { uuid: string; files: string[] | undefined } {
  if (chat.uuid === null)
    throw new SyscallError("INVALID", "nothing was changed yet: there is no conversation");
  return { uuid: chat.uuid, files: changedFiles(chat.io, wordsOf(args)) };
}
