/** Formats paths, texts and sizes for results and messages of the tools. */

import { relative, sep } from "node:path";

/** A path as the model and the user see it: relative to the working folder if it is inside. */
export function shownPath(cwd: string, path: string): string {
  const inner = relative(cwd, path);
  if (inner === "") return ".";
  return inner === ".." || inner.startsWith(`..${sep}`) ? path : inner;
}

/** The first `max` UTF-16 units of a text, without half a surrogate pair at the end. */
export function cutText(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? max - 1 : max);
}

/** A size as people write it: "1.5 MiB". */
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  const unit = Math.min(4, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** unit).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][unit - 1]}`;
}
