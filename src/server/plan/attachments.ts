/** Reads the files that are attached to a run. */

import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import type { AttachedImage } from "../../kernel/types.ts";
import { type Clock, withTimeout } from "../../lib/clock.ts";
import { openRegular, readRegular } from "../../lib/regular-file.ts";
import { framed } from "../../plugin/frame.ts";
import { type ImageType, SyscallError } from "../../plugin/index.ts";

/** The deadline for all files together: a network file system may never answer. */
const READ_MS = 30_000;

/** Maximum attached text in total: more than any model's context holds. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Maximum size of one image: 5 MiB in base64, the maximum of Anthropic; others take more. */
const MAX_IMAGE_BYTES = (5 * 1024 * 1024 * 3) / 4;
/** Maximum number and total size of a run's images: every request carries all of them. */
const MAX_IMAGES = 20;
const MAX_IMAGES_BYTES = 15 * 1024 * 1024;

export interface Attachments {
  /** Shown to the model with the intent; absent when nothing was attached. */
  text?: string;
  /** The attached images, in the order in which the text names them. */
  images: AttachedImage[];
  /** Additional folders that the run may use. */
  folders: string[];
}

/**
 * Reads the attachments of `--add` and stdin. A file's text is attached, an image (PNG, JPEG, GIF or WebP, by its
 * content) is shown, a folder may be used. Fails with INVALID for other binary files and for too much content, with
 * NOT_FOUND for a missing one, and with TIMEOUT after 30 s.
 */
export async function readAttachments(
  clock: Clock,
  paths: readonly string[],
  input?: string,
): Promise<Attachments> {
  const reading = readAll(paths, input);
  if (paths.length === 0 || (await withTimeout(clock, READ_MS, reading))) return reading;
  throw new SyscallError("TIMEOUT", `add: ${paths.join(", ")} could not be read within ${READ_MS / 1000} s.`);
}

async function readAll(paths: readonly string[], input: string | undefined): Promise<Attachments> {
  const texts: string[] = input === undefined ? [] : [input];
  const folders: string[] = [];
  const images: AttachedImage[] = [];
  let bytes = 0;
  for (const path of paths) {
    const found = await look(path);
    if (found.isDirectory) {
      folders.push(path);
    } else if (await isImage(path)) {
      images.push(await imageOf(path, found.size, images));
      texts.push(`<image path=${JSON.stringify(path)} />`);
    } else {
      bytes += found.size;
      if (bytes > MAX_BYTES) {
        const message = `add: with ${path} more than ${MAX_BYTES} bytes are attached. Name its folder, and the run reads what it needs.`;
        throw new SyscallError("INVALID", message);
      }
      texts.push(framed("file", await readText(path), { path }));
    }
  }
  return { folders, images, ...(texts.length > 0 && { text: texts.join("\n\n") }) };
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

async function isImage(path: string): Promise<boolean> {
  try {
    const { handle } = await openRegular(path);
    try {
      const { buffer, bytesRead } = await handle.read(new Uint8Array(IMAGE_HEAD));
      return imageType(buffer.subarray(0, bytesRead)) !== null;
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

async function imageOf(path: string, size: number, before: readonly AttachedImage[]): Promise<AttachedImage> {
  const together = before.reduce((sum, { data }) => sum + data.length, size);
  if (size > MAX_IMAGE_BYTES) {
    throw tooLarge(path, `has ${size} bytes, and an image may have ${MAX_IMAGE_BYTES}. Scale it down`);
  }
  if (before.length === MAX_IMAGES || together > MAX_IMAGES_BYTES) {
    const most = `${MAX_IMAGES} images and ${MAX_IMAGES_BYTES} bytes of them`;
    throw tooLarge(path, `is more than a run may begin with: ${most}, because every request carries them`);
  }
  const data = await readBytes(path, MAX_IMAGE_BYTES);
  const image = readImage(data);
  if (image !== null) return { ...image, data };
  throw new SyscallError("INVALID", `add: ${path} begins as an image and is cut off or damaged.`);
}

async function readText(path: string): Promise<string> {
  const bytes = await readBytes(path, MAX_BYTES);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
  }
  const message = `add: ${path} is neither a text file nor an image (PNG, JPEG, GIF, WebP). Name its folder, and the run can use it.`;
  throw new SyscallError("INVALID", message);
}

async function readBytes(path: string, most: number): Promise<Uint8Array> {
  try {
    return await readRegular(path, most);
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(path: string, cause: unknown): unknown {
  if (cause instanceof SyscallError || !(cause instanceof Error) || !("code" in cause)) return cause;
  if (cause.code === "ENOENT") {
    return new SyscallError("NOT_FOUND", `add: there is no file or folder ${path}.`, { cause });
  }
  return new SyscallError("INVALID", `add: ${path} can't be read: ${cause.message}.`, { cause });
}

function tooLarge(path: string, why: string): SyscallError {
  return new SyscallError("INVALID", `add: ${path} ${why}.`);
}

interface Image {
  media_type: ImageType;
  /** In pixels. */
  width: number;
  height: number;
}

/** Bytes at the beginning of a file that identify its type. */
const IMAGE_HEAD = 16;

/** The image type of a file by its first bytes; null for any other file. */
function imageType(head: Uint8Array): ImageType | null {
  const text = Buffer.from(head).toString("latin1");
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (text.startsWith("GIF87a") || text.startsWith("GIF89a")) return "image/gif";
  if (text.startsWith("RIFF") && text.slice(8, 12) === "WEBP") return "image/webp";
  return null;
}

/** An image and its size; null if it is truncated, or damaged in its header. */
export function readImage(bytes: Uint8Array): Image | null {
  const media_type = imageType(bytes.subarray(0, IMAGE_HEAD));
  if (media_type === null) return null;
  try {
    const [width, height] = SIZES[media_type](Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    return width > 0 && height > 0 ? { media_type, width, height } : null;
  } catch (error) {
    // The data ends before the image's size.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

type Size = [width: number, height: number];

const SIZES: Record<ImageType, (bytes: Buffer) => Size> = {
  "image/png": (bytes) => [bytes.readUInt32BE(16), bytes.readUInt32BE(20)],
  "image/gif": (bytes) => [bytes.readUInt16LE(6), bytes.readUInt16LE(8)],
  "image/jpeg": jpegSize,
  "image/webp": webpSize,
};

/** Walks the segments, each with its length, up to the frame's header. */
function jpegSize(bytes: Buffer): Size {
  for (let at = 2; ; ) {
    if (bytes.readUInt8(at) !== 0xff) return [0, 0];
    const marker = bytes.readUInt8(at + 1);
    // Filling, and markers that stand alone.
    if (marker === 0xff) at += 1;
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) at += 2;
    else if (isFrame(marker)) return [bytes.readUInt16BE(at + 7), bytes.readUInt16BE(at + 5)];
    else at += 2 + Math.max(2, bytes.readUInt16BE(at + 2));
  }
}

/** SOF0 to SOF15, without the three tables that have numbers among them. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** The three forms of the container: lossy, lossless, extended. */
function webpSize(bytes: Buffer): Size {
  const form = bytes.toString("latin1", 12, 16);
  if (form === "VP8 ") return [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff];
  if (form === "VP8L") {
    const bits = bytes.readUInt32LE(21);
    return [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
  }
  if (form === "VP8X") return [bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1];
  return [0, 0];
}
