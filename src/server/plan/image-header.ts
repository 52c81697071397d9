/** Reads the type and size of an image from its header. */

import type { ImageType } from "../../plugin/index.ts";

interface Image {
  media_type: ImageType;
  /** In pixels. */
  width: number;
  height: number;
}

/** Bytes at the beginning of a file that identify its type. */
export const IMAGE_HEAD = 16;

/** The image type of a file by its first bytes; null for any other file. */
export function imageType(head: Uint8Array): ImageType | null {
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
