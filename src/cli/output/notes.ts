/** Prints notes, warnings and errors for the user, by consola. Load it with the first of them: that takes a moment. */

import { type ConsolaInstance, createConsola } from "consola/core";
import type { Output } from "../io.ts";

const LABELS: Readonly<Record<string, string>> = { info: "note: ", warn: "warning: " };

/** `info` prints a note. */
export function notesTo(output: Pick<Output, "write">): Pick<ConsolaInstance, "info" | "warn" | "error"> {
  return createConsola({
    // Else consola holds a repeated line back, and the command may end before it is printed.
    throttle: 0,
    reporters: [
      { log: ({ type, args }) => output.write(`${LABELS[type] ?? ""}${args.map(String).join(" ")}\n`) },
    ],
  });
}
