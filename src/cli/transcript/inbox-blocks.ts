/** Blocks of what the model has read from its inbox, without the frames that name the sender. */

import type { Change } from "./transcript.ts";

/** The frames in which an inbox entry reaches the model. Text outside them is the user's. */
const FRAMES =
  /<system-reminder>([\s\S]*?)<\/system-reminder>|<message from_pid="(\d+)"[^>]*>\n?([\s\S]*?)\n?<\/message>/g;
/** Explain to the model what the user sees anyway: whose messages follow, and where it was interrupted. */
const INTRODUCTION = /^(Messages from other processes\. |The user interrupted your last answer: )/;

export function inboxBlocks(text: string): Change[] {
  const blocks: Change[] = [];
  const add = (from: "user" | "system" | number, part: string): void => {
    const shown = part.replaceAll("&lt;", "<").trim();
    if (shown !== "") blocks.push({ type: "block", block: { kind: "message", from, text: shown } });
  };
  let at = 0;
  for (const found of text.matchAll(FRAMES)) {
    add("user", text.slice(at, found.index));
    at = found.index + found[0].length;
    const [, reminder, pid, message] = found;
    if (pid !== undefined) add(Number(pid), message ?? "");
    else if (reminder !== undefined && !INTRODUCTION.test(reminder)) add("system", reminder);
  }
  add("user", text.slice(at));
  return blocks;
}

/** What of it is a message of the user or of another process; empty where only the system notifies. */
export function messageText(text: string): string {
  const messages = inboxBlocks(text).flatMap((change) =>
    change.type === "block" && change.block.kind === "message" && change.block.from !== "system"
      ? [change.block.text]
      : [],
  );
  return messages.join("\n");
}
