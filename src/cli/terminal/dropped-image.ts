/** The path of a picture that was dropped on the terminal. */

import { IMAGE } from "./completion.ts";

/** Terminals write the path quoted, escaped or as a URL. null for any other text. */
export function droppedImage(text: string, isFile: (path: string) => boolean): string | null {
  const line = text.trim();
  if (line.includes("\n") || line.length > 4096) return null;
  const unquoted = /^(["'])(.*)\1$/.exec(line)?.[2] ?? line.replace(/\\(.)/g, "$1");
  const path = unquoted.startsWith("file://") ? pathOfUrl(unquoted) : unquoted;
  return /^(?:\/|~\/)/.test(path) && IMAGE.test(path) && isFile(path) ? path : null;
}

function pathOfUrl(url: string): string {
  try {
    return decodeURIComponent(new URL(url).pathname);
  } catch {
    return url;
  }
}
