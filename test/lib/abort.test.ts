/** Ends of work, with and without a signal of the runtime. */

import { expect, test } from "bun:test";
import { Abort, onceAborted, signalOf } from "../../src/lib/clock.ts";

test("calls its listeners once, with and without a signal of the runtime", () => {
  for (const isMade of [false, true]) {
    const abort = new Abort();
    const heard: string[] = [];
    if (isMade) onceAborted(abort.signal, () => heard.push("signal"));
    onceAborted(abort, () => heard.push("abort"));
    const remove = onceAborted(abort, () => heard.push("removed"));
    remove();
    abort.abort("the first reason");
    abort.abort("the second reason");
    onceAborted(abort, () => heard.push("late"));
    expect(heard).toEqual(isMade ? ["signal", "abort", "late"] : ["abort", "late"]);
    expect(abort.reason).toBe("the first reason");
  }
});

test("a signal that is made after the abort is aborted with its reason", () => {
  const abort = new Abort();
  const reason = new Error("it must stop");
  abort.abort(reason);
  expect(signalOf(abort).aborted).toBe(true);
  expect(signalOf(abort).reason).toBe(reason);
  expect(() => abort.throwIfAborted()).toThrow(reason);
});

test("listeners of the signal and of the runtime hear of an abort", () => {
  const abort = new Abort();
  let heard = 0;
  abort.signal.addEventListener("abort", () => heard++);
  onceAborted(abort.signal, () => heard++);
  abort.abort("it ends");
  expect(heard).toBe(2);
});
