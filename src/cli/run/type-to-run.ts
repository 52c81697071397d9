/** Lets the user type to a run that is shown live: the input line appears with the first key. */

import type { Io, Wire } from "../io.ts";
import type { RunOutput } from "../output/run-output.ts";

const CTRL_R = "\x12";

interface TypedRun {
  uuid: string;
  /** A connection for one request. */
  connect(): Promise<Wire>;
}

/** Returns a function that ends it. */
export function typeToRun(io: Io, view: RunOutput, { uuid, connect }: TypedRun): () => void {
  const { slot } = view;
  if (slot === undefined || io.stdin.kind !== "tty") return () => undefined;
  let isOver = false;
  let close: (() => void) | undefined;
  /** What was typed while the line is loaded. */
  let early: ((input: { key(data: string): void; paste(text: string): void }) => void)[] | undefined;
  const open = async (): Promise<void> => {
    const { RunInput } = await import("../chat/run-input.ts");
    if (isOver) return;
    const input = new RunInput({ io, uuid, connect, slot, say: (line) => view.say(line) });
    close = () => input.close();
    slot.below = input;
    slot.filter = (event) => input.take(event);
    slot.unused = input;
    for (const typed of early ?? []) typed(input);
    slot.redraw();
  };
  const take = (typed: NonNullable<typeof early>[number]): void => {
    if (early === undefined) {
      early = [];
      open().catch((error: unknown) => view.say(String(error)));
    }
    early.push(typed);
  };
  slot.unused = {
    key(data) {
      // Arrows and the like begin no message; Ctrl-R searches the past ones.
      if (early !== undefined || data === CTRL_R || /^[^\p{Cc}]+$/u.test(data))
        take((input) => input.key(data));
    },
    paste: (text) => take((input) => input.paste(text)),
  };
  return () => {
    isOver = true;
    slot.unused = null;
    close?.();
  };
}
