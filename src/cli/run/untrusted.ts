/** Attaches text that other people wrote, such as that of a pull request, as data that gives no instructions. */

import { list } from "../flags.ts";
import type { Io } from "../io.ts";
import type { FromStdin } from "./stdin.ts";

export const UNTRUSTED_FLAGS = {
  untrusted: list(
    'attach a text that may try to instruct the agent, such as a pull request\'s, marked as data; "-" is stdin, which --base marks by itself',
    "FILE",
    { file: "read -" },
  ),
};

/** Adds the texts to what stdin gives. */
export type AddUntrusted = (input: FromStdin | undefined) => FromStdin;

export interface UntrustedFlags {
  untrusted: readonly string[];
  base: string | undefined;
}

/**
 * Returns a function that adds the texts to what stdin gives. Fails with INVALID for a file that can't be read, and where
 * stdin would be the intent, too. `intent`: the argument.
 */
export async function withUntrusted(
  io: Io,
  flags: UntrustedFlags,
  intent: string | undefined,
): Promise<AddUntrusted> {
  if (flags.base === undefined && flags.untrusted.length === 0) return (input = NO_INPUT) => input;
  const { untrustedInput } = await import("./untrusted-input.ts");
  return untrustedInput(io, flags, intent);
}

const NO_INPUT: FromStdin = { text: undefined, notices: [] };
