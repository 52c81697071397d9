import { deflateSync } from "node:zlib";

/** A whole PNG of this size, in one grey: two greys are two images. */
export function png(width: number, height: number, grey = 0): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0, 0, 0, 0], 8);
  const rows = Buffer.alloc((width + 1) * height, grey);
  for (let row = 0; row < height; row++) rows[row * (width + 1)] = 0;
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(Bun.hash.crc32(body));
  return Buffer.concat([length, body, sum]);
}

/** The head of a JPEG: filling, a segment without use, then the frame's header with its size. */
export function jpeg(width: number, height: number): Uint8Array {
  const frame = Buffer.from([0xff, 0xc2, 0, 17, 8, 0, 0, 0, 0, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  const comment = Buffer.concat([Buffer.from([0xff, 0xff, 0xfe, 0, 6]), Buffer.from("\xff\xc0ab", "latin1")]);
  return Buffer.concat([Buffer.from([0xff, 0xd8]), comment, frame, Buffer.from([0xff, 0xd9])]);
}

/** The head of a GIF. */
export function gif(width: number, height: number): Uint8Array {
  const bytes = Buffer.from("GIF89a\0\0\0\0\0\0\0", "latin1");
  bytes.writeUInt16LE(width, 6);
  bytes.writeUInt16LE(height, 8);
  return bytes;
}

/** The head of a WebP of each of the three forms. */
export function webp(form: "VP8 " | "VP8L" | "VP8X", width: number, height: number): Uint8Array {
  const bytes = Buffer.alloc(40);
  bytes.write("RIFF", 0, "latin1");
  bytes.writeUInt32LE(32, 4);
  bytes.write(`WEBP${form}`, 8, "latin1");
  if (form === "VP8 ") {
    bytes.writeUInt16LE(width, 26);
    bytes.writeUInt16LE(height, 28);
  } else if (form === "VP8L") {
    bytes.writeUInt8(0x2f, 20);
    bytes.writeUInt32LE(((height - 1) << 14) | (width - 1), 21);
  } else {
    bytes.writeUIntLE(width - 1, 24, 3);
    bytes.writeUIntLE(height - 1, 27, 3);
  }
  return bytes;
}
