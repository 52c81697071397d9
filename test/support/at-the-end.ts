import { onTestFinished } from "bun:test";

/**
 * Fails the test at its end. What a disposal finds is reported beside the test's own failure: thrown
 * there, it would hide that, and Bun shows neither of them. Outside of a test there is nothing to hide.
 */
export function failAtTheEnd(why: string): void {
  const fail = (): never => {
    throw new Error(why);
  };
  try {
    onTestFinished(fail);
  } catch {
    fail();
  }
}
