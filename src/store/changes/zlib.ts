/** Compression beside the thread, loaded with the first content: node:zlib brings node's streams, some milliseconds. */

import { promisify } from "node:util";
import { deflate, deflateSync, inflate, type ZlibOptions } from "node:zlib";

const deflateBeside = promisify<Uint8Array, ZlibOptions, Buffer>(deflate);
/** A smaller content is compressed sooner than another thread begins with it. */
const SMALL = 16 * 1024;

export async function compress(data: Uint8Array, o: ZlibOptions): Promise<Uint8Array> {
  return data.length <= SMALL ? deflateSync(data, o) : deflateBeside(data, o);
}

export const expand = promisify(inflate);
