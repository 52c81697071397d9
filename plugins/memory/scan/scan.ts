/** Scans a text before it is remembered, and when it is read. */

import { findSecret } from "rnix/plugin";
import { findHidden } from "./hidden.ts";
import { findInstruction } from "./instructions.ts";

/** What a scan found in a text. */
export interface Finding {
  kind: "hidden characters" | "a secret" | "instructions";
  /** Names what was found, without repeating a secret. */
  what: string;
}

/** The first finding; null for an ordinary text. The text is normalized. */
export function scan(text: string): Finding | null {
  const hidden = findHidden(text);
  if (hidden !== null) return { kind: "hidden characters", what: hidden };
  const secret = findSecret(text);
  if (secret !== null) return { kind: "a secret", what: secret };
  const instruction = findInstruction(text);
  return instruction === null ? null : { kind: "instructions", what: instruction };
}
