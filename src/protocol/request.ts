/** The common form of every request and answer. */

import { z } from "zod";
import { Uuid } from "./fields.ts";

/** Maximum bytes of a request line; a longer one fails with TOO_LARGE. */
export const MAX_REQUEST_BYTES = 16 * 1024 * 1024;

/**
 * The common fields of every request. `id` is echoed in the answers. `unit` is the client's RNIX_UNIT: the process
 * whose shell runs the command. What the system shows of the client takes precedence.
 */
export const Request = z.object({
  method: z.string(),
  payload: z.unknown().optional(),
  id: z.union([z.string(), z.number()]).optional(),
  unit: Uuid().optional(),
});
export type Request = z.infer<typeof Request>;

export interface WireError {
  /** A kernel code, or BAD_REQUEST, UNKNOWN_METHOD, TOO_LARGE, VERSION. */
  code: string;
  message: string;
  syscall?: string;
  device?: string;
}

export type Response =
  | { ok: true; payload?: unknown; id?: string | number }
  | { ok: false; error: WireError; id?: string | number };
