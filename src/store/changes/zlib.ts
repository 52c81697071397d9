/** Compression beside the thread, loaded with the first content: node:zlib brings node's streams, some milliseconds. */

import { promisify } from "node:util";
import { deflate, inflate } from "node:zlib";

export const compress = promisify(deflate);
export const expand = promisify(inflate);
