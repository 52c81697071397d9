/** Coalesces the output of a call in a process: a driver that shows much output sends few messages. */

import { countLines, TextTail } from "../../lib/text-tail.ts";

const EVERY_MS = 50;
/** Characters of one message: the newest. */
const MAX_CHARS = 8 * 1024;

/** The returned function collects texts; `pass` gets them together, with the number of lines left out before them. */
export function coalesced(
  pass: (text: string, skipped: number) => void,
): (text: string, skipped?: number) => void {
  const tail = new TextTail(MAX_CHARS);
  let lines = 0;
  let isWaiting = false;
  const flush = (): void => {
    isWaiting = false;
    const text = tail.take();
    pass(text, lines - countLines(text));
    lines = 0;
  };
  return (text, skipped = 0) => {
    tail.add(text);
    lines += skipped + countLines(text);
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(flush, EVERY_MS).unref();
  };
}
