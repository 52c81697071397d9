/** Reads the texts of `--untrusted` and frames them as data. */

import { type UntrustedText, untrustedBlocks } from "../../plugin/untrusted-text.ts";
import { usageError } from "../exit.ts";
import { textOf } from "../files/paths.ts";
import type { Io } from "../io.ts";
import type { AddUntrusted, UntrustedFlags } from "./stdin.ts";

const STDIN = "-";
const MAX_ORIGIN = 200;
const MAX_CHARACTERS = 4 * 1024 ** 2;

/** Returns a function that adds the texts to what stdin gives. Fails with INVALID for a file that can't be read. */
export async function untrustedInput(
  io: Io,
  flags: UntrustedFlags,
  intent: string | undefined,
): Promise<AddUntrusted> {
  requireTrustedIntent(flags, intent);
  const texts: UntrustedText[] = [];
  for (const file of flags.untrusted) {
    if (file === STDIN) continue;
    const name = file.startsWith("/dev/fd/") ? "a pipe" : file;
    texts.push({ name, text: await textOf(io, "--untrusted", file) });
  }
  const length = texts.reduce((sum, { text }) => sum + text.length, 0);
  if (length > MAX_CHARACTERS) {
    throw usageError(`--untrusted: expected at most ${MAX_CHARACTERS} characters in all, got ${length}`);
  }
  const takesStdin = flags.base !== undefined || flags.untrusted.includes(STDIN);
  return ({ text, notices } = { text: undefined, notices: [] }) => {
    const all = takesStdin && text !== undefined ? [...texts, { name: "stdin", text }] : texts;
    const trusted = takesStdin ? undefined : text;
    const parts = [trusted, all.length > 0 ? untrustedBlocks(all) : undefined];
    const given = parts.filter((part) => part !== undefined);
    const names = all.map(({ name }) => name).join(", ");
    const origin = all.length > 0 && { origin: names.slice(0, MAX_ORIGIN) };
    return { text: given.length > 0 ? given.join("\n\n") : undefined, notices, ...origin };
  };
}

/** Fails with INVALID where stdin would be the intent: with `--base` it is not trusted. */
function requireTrustedIntent({ base, untrusted }: UntrustedFlags, argument: string | undefined): void {
  if (argument === undefined && base !== undefined) {
    throw usageError(
      'INTENT is missing: with --base, what stdin sends is data and no instruction. Give the intent as an argument; "-" reads it from stdin',
    );
  }
  if ((argument === undefined || argument === STDIN) && untrusted.includes(STDIN)) {
    throw usageError(
      "--untrusted -: stdin can't be the intent and data at once. Give the intent as an argument",
    );
  }
}
