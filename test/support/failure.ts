import { SyscallError } from "../../src/plugin/index.ts";

/** The SyscallError with which the work fails. */
export async function failure(work: unknown): Promise<SyscallError> {
  try {
    await work;
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown;
    throw thrown;
  }
  throw new Error("expected it to fail");
}

/** The code of the SyscallError with which an attempt fails; "" when it does not. */
export async function codeOf(attempt: Promise<unknown> | (() => unknown)): Promise<string> {
  try {
    await (typeof attempt === "function" ? attempt() : attempt);
    return "";
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown.code;
    throw thrown;
  }
}

/** The same for a synchronous call. */
export function codeNow(attempt: () => unknown): string {
  try {
    attempt();
    return "";
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown.code;
    throw thrown;
  }
}
