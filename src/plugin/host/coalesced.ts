/** Coalesces the output of a call in a Worker: a driver that shows much output sends few messages. */

import { TextTail } from "../../lib/text-tail.ts";

const EVERY_MS = 50;
/** Characters of one message: the newest. */
const MAX_CHARS = 8 * 1024;

/** The returned function collects texts; `pass` gets them together, with the number of lines left out before them. */
export function coalesced(
  pass: (text: string, skipped: number) => void,
): (text: string, skipped?: number) => void {
  let tail: TextTail | undefined;
  let isWaiting = false;
  const flush = (): void => {
    isWaiting = false;
    if (tail === undefined || tail.isEmpty) return;
    const { text, skipped } = tail.take();
    pass(text, skipped);
  };
  return (text, skipped = 0) => {
    tail ??= new TextTail(MAX_CHARS);
    tail.add(text, skipped);
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(flush, EVERY_MS).unref();
  };
}
