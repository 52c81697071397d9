import { readFile, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { SyscallError } from "../plugin/index.ts";

/** All attached text together: more than any model's context holds. */
const MAX_BYTES = 4 * 1024 * 1024;

interface Attachments {
  /** Put before the model with the intent; absent when nothing was attached. */
  text?: string;
  /** Further folders the run may touch. */
  folders: string[];
}

/**
 * What `--add` names and what came by stdin: a file's text is attached, a folder may be used. INVALID for a
 * file that is not text or too much of it, NOT_FOUND for one that is not there.
 */
export async function readAttachments(paths: readonly string[], input?: string): Promise<Attachments> {
  const texts: string[] = input === undefined ? [] : [input];
  const folders: string[] = [];
  let bytes = 0;
  for (const path of paths) {
    const found = await look(path);
    if (found.isDirectory) {
      folders.push(path);
      continue;
    }
    bytes += found.size;
    if (bytes > MAX_BYTES) throw tooMuch(path);
    texts.push(`<file path=${JSON.stringify(path)}>\n${await readText(path)}\n</file>`);
  }
  return { folders, ...(texts.length > 0 && { text: texts.join("\n\n") }) };
}

async function look(path: string): Promise<{ isDirectory: boolean; size: number }> {
  if (!isAbsolute(path)) throw new SyscallError("INVALID", `add: expected an absolute path, got "${path}".`);
  try {
    const found = await stat(path);
    if (!found.isDirectory() && !found.isFile()) {
      throw new SyscallError("INVALID", `add: ${path} is neither a file nor a folder.`);
    }
    return { isDirectory: found.isDirectory(), size: found.size };
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

async function readText(path: string): Promise<string> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    throw unreadable(path, cause);
  }
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
  }
  throw new SyscallError(
    "INVALID",
    `add: ${path} is not a text file. Name its folder, and the run can use it.`,
  );
}

function unreadable(path: string, cause: unknown): unknown {
  if (cause instanceof SyscallError || !(cause instanceof Error) || !("code" in cause)) return cause;
  if (cause.code === "ENOENT") {
    return new SyscallError("NOT_FOUND", `add: there is no file or folder ${path}.`, { cause });
  }
  return new SyscallError("INVALID", `add: ${path} can't be read: ${cause.message}.`, { cause });
}

function tooMuch(path: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `add: with ${path} more than ${MAX_BYTES} bytes are attached. Name its folder, and the run reads what it needs.`,
  );
}
