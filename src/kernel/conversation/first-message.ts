/** The first message of a conversation. */

import { framed } from "../../plugin/frame.ts";
import type { ImageRef, Message } from "../../plugin/index.ts";
import type { ProcInfo } from "../../store/runs/schema.ts";

/** The first message of a conversation: the intent, then the attached input, with the images. */
export function firstMessage(
  intent: string,
  input: string | null | undefined,
  images: readonly ImageRef[] = [],
): Message {
  const attached = input === null || input === undefined ? [] : [framed("input", input)];
  const content = [intent, ...attached].join("\n\n");
  return { role: "user", content, ...(images.length > 0 && { images: [...images] }) };
}

/** The first message of a recorded run before its first step; none of a chat, whose messages are all in its inbox. */
export function recordedFirst(
  { chat, intent }: Pick<ProcInfo, "chat" | "intent">,
  spawned: { input: string | null; images?: readonly ImageRef[] } | undefined,
): Message | undefined {
  return chat ? undefined : firstMessage(intent, spawned?.input, spawned?.images);
}
