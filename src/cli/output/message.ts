/** Formats one message of a conversation. */

import type { ImageRef, Message } from "../../plugin/index.ts";
import { formatBytes, printable } from "./format.ts";
import type { Style } from "./style.ts";

/** One message of a conversation: its role, text, images and calls. */
export function messageText({ role, content, tool_calls = [], images = [] }: Message, style: Style): string {
  const calls = tool_calls.map(
    ({ name, input }) => `${style.cyan(name)} ${printable(JSON.stringify(input, null, 2))}\n`,
  );
  const pictures = images.map((one) => imageText(one, style));
  return `\n${style.bold(role)}\n${printable(content)}\n${pictures.join("")}${calls.join("")}`;
}

function imageText({ media_type, width, height, bytes, file }: ImageRef, style: Style): string {
  return style.dim(
    `${media_type}, ${width} × ${height}, ${formatBytes(bytes)}: ${file} of the run's folder\n`,
  );
}
