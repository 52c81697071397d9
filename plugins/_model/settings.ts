import type { JSONObject } from "@ai-sdk/provider";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";

/** What a provider's entry says to its driver. */
export interface Settings {
  base_url?: string;
  extra: JSONObject;
}

/** The provider's entry; the kernel hands it over when it opens the device. */
export function settingsOf(context: OpenContext): Settings {
  const result = Entry.safeParse(context.config ?? {});
  if (result.success) return { base_url: result.data.base_url, extra: result.data.extra ?? {} };
  throw unfit(result.error);
}

/** What is wrong with the provider's entry, or with what stands `at` this place of it, in one line. */
export function unfit(cause: z.ZodError, ...at: string[]): SyscallError {
  const wrong = cause.issues.map(({ path, message }) => `${[...at, ...path].join(".")}: ${message}`);
  return new SyscallError("INVALID", `the provider's entry: ${wrong.join("; ")}`, { cause });
}

/**
 * The entry's key; "" where none is needed and there is none. One that is missing is missing for good: no
 * further attempt will find it.
 */
export async function keyOf(context: OpenContext, need: { required: boolean }): Promise<string> {
  if (context.secret === undefined)
    throw new SyscallError("INTERNAL", "a model driver was opened without the service `secret`");
  try {
    return sendable(await context.secret());
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    if (error.code === "UNAVAILABLE" && !need.required) return "";
    throw new SyscallError(error.code, error.message, { cause: error, retryable: false });
  }
}

/** A header takes no line break and nothing beyond ASCII: such a key was copied with something around it. */
function sendable(key: string): string {
  if (/^[\x20-\x7e]*$/.test(key)) return key;
  const what = "The key has a line break or another character that no request can carry";
  throw new SyscallError("PERMISSION", `${what}. Look at where it comes from`);
}

const Entry = z.object({
  base_url: z
    .url({
      protocol: /^https?$/,
      error:
        "expected an address that begins with http:// or https://. Where no providers.yaml gives it, it comes from the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …)",
    })
    .optional(),
  extra: z.record(z.string(), z.json()).optional(),
});
