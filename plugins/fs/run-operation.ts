/** Runs the operations that are written to /dev/fs. */

import type { OpenContext } from "rnix/plugin";
import { edit } from "./edit/edit.ts";
import { parseOperation } from "./operations.ts";
import { Confinement } from "./paths/confinement.ts";
import { read } from "./read.ts";
import { glob } from "./search/glob.ts";
import { grep } from "./search/grep.ts";
import { write } from "./write.ts";

/** Runs the operation of this text, and returns what the model is shown. */
export function runOperation(text: string, context: OpenContext, signal: AbortSignal): Promise<string> {
  const operation = parseOperation(text);
  const confinement = new Confinement(context);
  switch (operation.op) {
    case "read":
      return read(confinement, operation, signal);
    case "write":
      return write(confinement, context, operation, signal);
    case "edit":
      return edit(confinement, context, operation, signal);
    case "glob":
      return glob(confinement, context, operation, signal);
    case "grep":
      return grep(confinement, context, operation, signal);
  }
}
