/** Reads git's index: the files of a work tree with the names of their contents, and their times when they were added. */

import { nameOf } from "../../lib/file-name.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";

const HEADER = 12;
export const OID_BYTES: Record<ObjectFormat, number> = { sha1: 20, sha256: 32 };
/** Bytes of an index entry that come before the name of its content. */
const FACTS = 40;
const EXTENDED = 0x4000;
const STAGE = 0x3000;
const ABSENT_BY_WISH = 0x4000;
const INTENT_TO_ADD = 0x2000;
const FOLDER = 0o040000;

/** A file in the index. A time without nanoseconds has 0 of them. */
export interface IndexedFile {
  path: string;
  /** 0 for a conflict, and for a file that is only to be added: the index names no content of it. */
  mode: number;
  /** Where the name of its content begins in the index. */
  oidAt: number;
  ctime: number;
  mtime: number;
  mtimeNs: number;
  inode: number;
  size: number;
  /** A sparse checkout leaves it out. */
  sparse: boolean;
}

/**
 * Calls `use` for each file, in git's order. Versions 2 to 4 are read, and no checksum. Returns null for another
 * format, such as a split index; `false` when it names folders instead of their files (a sparse index).
 */
export async function readIndex(
  bytes: Buffer,
  format: ObjectFormat,
  use: (file: IndexedFile) => void,
): Promise<boolean | null> {
  if (bytes.length < HEADER || bytes.toString("latin1", 0, 4) !== "DIRC") return null;
  const version = bytes.readUInt32BE(4);
  const count = bytes.readUInt32BE(8);
  const hash = OID_BYTES[format];
  if (version < 2 || version > 4 || count > bytes.length / (FACTS + hash)) return null;
  const slices = new TimeSlices();
  let at = HEADER;
  let isWhole = true;
  let last: IndexedFile | undefined;
  let name: Uint8Array = new Uint8Array();
  for (let i = 0; i < count; i++) {
    const begin = at;
    at += FACTS + hash;
    if (at + 4 > bytes.length) return null;
    const flags = bytes.readUInt16BE(at);
    at += 2;
    let more = 0;
    if (flags & EXTENDED) {
      more = bytes.readUInt16BE(at);
      at += 2;
    }
    let shared = 0;
    if (version === 4) {
      const removed = readNumber(bytes, at);
      at = removed.end;
      shared = name.length - removed.value;
      if (shared < 0) return null;
    }
    const end = bytes.indexOf(0, at);
    if (end < 0) return null;
    const suffix = bytes.subarray(at, end);
    name = shared > 0 ? Buffer.concat([name.subarray(0, shared), suffix]) : suffix;
    // Older versions fill each entry with one to eight zeros.
    at = version === 4 ? end + 1 : begin + ((end - begin + 8) & ~7);
    const mode = bytes.readUInt32BE(begin + 24);
    if (mode === FOLDER) {
      isWhole = false;
      continue;
    }
    const path = nameOf(name);
    // The stages of a conflict follow each other.
    if (last?.path === path) continue;
    last = {
      path,
      mode: flags & STAGE || more & INTENT_TO_ADD ? 0 : mode,
      oidAt: begin + FACTS,
      ctime: bytes.readUInt32BE(begin),
      mtime: bytes.readUInt32BE(begin + 8),
      mtimeNs: bytes.readUInt32BE(begin + 12),
      inode: bytes.readUInt32BE(begin + 20),
      size: bytes.readUInt32BE(begin + 36),
      sparse: (more & ABSENT_BY_WISH) !== 0,
    };
    use(last);
    if (i % 256 === 0) await slices.pause();
  }
  // An extension in small letters changes what the entries mean; `sdir` is that of the folders.
  for (; at + 8 <= bytes.length - hash; at += 8 + bytes.readUInt32BE(at + 4)) {
    const extension = bytes.toString("latin1", at, at + 4);
    if (!/^[A-Z]/.test(extension) && extension !== "sdir") return null;
  }
  return isWhole;
}

/** Reads a number of variable length, as git writes offsets. */
function readNumber(bytes: Buffer, at: number): { value: number; end: number } {
  let byte = bytes[at++] ?? 0;
  let value = byte & 127;
  while (byte & 128) {
    byte = bytes[at++] ?? 0;
    value = (value + 1) * 128 + (byte & 127);
  }
  return { value, end: at };
}
