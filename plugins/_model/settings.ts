/** Reads and checks the settings that a provider's entry gives its driver. */

import type { JSONObject } from "@ai-sdk/provider";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";

/** The settings that a provider's entry gives its driver. */
export interface Settings {
  base_url?: string;
  /** Where the key comes from, for people: a variable, or a command. */
  key_source?: string;
  extra: JSONObject;
}

/** The settings of the provider whose device is open. INVALID when its entry is wrong. */
export function settingsOf(context: OpenContext): Settings {
  const result = Entry.safeParse(context.config ?? {});
  if (result.success) return { ...result.data, extra: result.data.extra ?? {} };
  throw invalidEntry(result.error);
}

/** What is wrong with the provider's entry, or with its part `at`, in one line. */
export function invalidEntry(cause: z.ZodError, ...at: string[]): SyscallError {
  const wrong = cause.issues.map(({ path, message }) => `${[...at, ...path].join(".")}: ${message}`);
  return new SyscallError("INVALID", `the provider's entry: ${wrong.join("; ")}`, { cause });
}

/** The entry's key; "" where none is needed and there is none. A retry finds no missing key. */
export async function keyOf(context: OpenContext, need: { required: boolean }): Promise<string> {
  if (context.secret === undefined)
    throw new SyscallError("INTERNAL", "a model driver was opened without the service `secret`");
  try {
    return checkedKey(await context.secret());
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    if (error.code === "UNAVAILABLE" && !need.required) return "";
    throw new SyscallError(error.code, error.message, { cause: error, retryable: false });
  }
}

/** A header holds only printable ASCII: another character was copied together with the key. */
function checkedKey(key: string): string {
  if (/^[\x20-\x7e]*$/.test(key)) return key;
  const message =
    "The key has a line break or another character that a request cannot carry. Check where it comes from";
  throw new SyscallError("PERMISSION", message);
}

const Entry = z.object({
  base_url: z
    .url({
      protocol: /^https?$/,
      error:
        "expected an address that begins with http:// or https://. It comes from providers.yaml or from the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …)",
    })
    .optional(),
  key_source: z.string().optional(),
  extra: z.record(z.string(), z.json()).optional(),
});
