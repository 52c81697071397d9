import { onTestFinished } from "bun:test";

/**
 * Fails the test at its end. What is found at a disposal is told so, beside what the test itself has failed of: thrown
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
