/** The user's file of keys, where a run without a caller finds the key and the address of its model. */

import { chmodSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "./machine.ts";

const OPENAI = ["OPENAI_API_KEY", "OPENAI_BASE_URL"];

/** Writes the machine's variables of these names to it. */
export function writeKeys(machine: Machine, names: readonly string[] = OPENAI): void {
  const lines = names.map((name) => `${name}=${machine.env[name]}\n`);
  chmodSync(machine.write(join(machine.configDir, "env"), lines.join("")), 0o600);
}
