/** Reads the requests that are written to devices. */

import { SyscallError } from "rnix/plugin";
import { isObject } from "./is-object.ts";

/** The JSON object of a text. Any other text fails with INVALID; the message names the device and what it expects. */
export function jsonObject(
  device: string,
  text: string,
  expected = "a JSON object",
): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw wrong(device, text, expected, cause);
  }
  throw wrong(device, text, expected);
}

function wrong(device: string, text: string, expected: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `${device}: expected ${expected}, got ${text.slice(0, 100)}`, { cause });
}
