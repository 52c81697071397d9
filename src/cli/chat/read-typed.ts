/** Decides what a typed line is: a message for the model, or a command. */

import { nearestName } from "../../lib/edit-distance.ts";

type Typed =
  | { kind: "message"; text: string }
  | { kind: "command"; name: string; args: string }
  | { kind: "unknown"; name: string; nearest: string | undefined };

/**
 * A line that begins with a slash is a command, unless its first word is a path. Nothing of an unknown command is sent to
 * the model. `isPath`: whether a word such as "/tmp" names something on disk.
 */
export function readTyped(text: string, names: Iterable<string>, isPath: (word: string) => boolean): Typed {
  const match = /^\/([^\s/]*)(?:\s+([\s\S]*))?$/.exec(text.trim());
  if (match === null) return { kind: "message", text };
  const name = match[1] ?? "";
  const known = new Set(names);
  if (known.has(name)) return { kind: "command", name, args: (match[2] ?? "").trim() };
  if (name === "" || isPath(`/${name}`)) return { kind: "message", text };
  return { kind: "unknown", name, nearest: nearestName(name, known) };
}
