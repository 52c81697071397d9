import { framed } from "../../lib/frame.ts";
import type { ImageRef, Message } from "../../plugin/index.ts";

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
