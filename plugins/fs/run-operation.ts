/** Runs the operations that are written to /dev/fs. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json-object.ts";
import { edit } from "./edit/edit.ts";
import { Confinement } from "./paths/confinement.ts";
import { read } from "./read.ts";
import { glob } from "./search/glob.ts";
import { grep } from "./search/grep.ts";
import { EDIT, GLOB, GREP, READ, WRITE } from "./tools.ts";
import { write } from "./write.ts";

const EXPECTED =
  'one operation as JSON such as {"op":"read","path":"README.md"} (a file\'s content is written to /dev/fs/<path>)';

/** Runs the operation of this text, and returns what the model is shown. */
export async function runOperation(text: string, context: OpenContext, signal: AbortSignal): Promise<string> {
  const { op, ...input } = jsonObject("/dev/fs", text, EXPECTED);
  const confinement = new Confinement(context);
  switch (op) {
    case READ.op:
      return read(confinement, checkedInput(READ, input), signal);
    case WRITE.op:
      return write(confinement, context, checkedInput(WRITE, input), signal);
    case EDIT.op:
      return edit(confinement, context, checkedInput(EDIT, input), signal);
    case GLOB.op:
      return glob(confinement, context, checkedInput(GLOB, input), signal);
    case GREP.op:
      return grep(confinement, context, checkedInput(GREP, input), signal);
  }
  throw new SyscallError(
    "INVALID",
    `/dev/fs: expected op read, write, edit, glob or grep, got ${JSON.stringify(op)}.`,
  );
}
