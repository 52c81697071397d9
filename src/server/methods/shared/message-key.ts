/** The key by which a message that is sent again after a lost answer is taken once. */

import type { MessageKey } from "../../../kernel/chat/chat-control.ts";

/** `unit`: the run that the caller is a program of. It uses up no key of its user. */
export function messageKey(
  key: string | undefined,
  { text, files = [] }: { text: string; files?: readonly string[] },
  unit: string | undefined,
): MessageKey | undefined {
  if (key === undefined) return undefined;
  const digest = Bun.hash(JSON.stringify([text, files])).toString(36);
  return { key: unit === undefined ? key : `${unit} ${key}`, digest };
}
