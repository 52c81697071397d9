/** Makes the messages of a conversation: the first one, tool results, and stored images. */

import { framed } from "../../plugin/frame.ts";
import type { ImageRef, Message } from "../../plugin/index.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { ProcInfo, ToolCallRecord } from "../../store/runs/schema.ts";
import type { AttachedImage } from "../types.ts";

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

/** The tool message of a call. It is made from the record alone, so it can be rebuilt. */
export function toolMessage(record: ToolCallRecord): Message {
  const content =
    record.error === null
      ? (record.result ?? "")
      : `Error ${record.error_code}: ${record.error}${record.result ? `\n${record.result}` : ""}`;
  return { role: "tool", tool_call_id: record.id, content };
}

/** Stores attached images beside the run's record. One after the other, because they are large. */
export async function storeImages(
  record: RunWriter,
  images: readonly AttachedImage[] = [],
): Promise<ImageRef[]> {
  const stored: ImageRef[] = [];
  for (const { media_type, width, height, data } of images) {
    const name = `image.${media_type.slice("image/".length)}`;
    const { file, sha256, bytes } = await record.storeBlob(name, data);
    stored.push({ media_type, file, sha256, bytes, width, height });
  }
  return stored;
}
