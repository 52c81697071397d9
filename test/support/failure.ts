import { SyscallError } from "../../src/plugin/index.ts";

/** Something that may fail: under way already, or to be called. */
type Attempt = PromiseLike<unknown> | undefined | (() => unknown);

/** The SyscallError with which an attempt fails; anything else that is thrown, or nothing, fails the test. */
export async function failure(attempt: Attempt): Promise<SyscallError> {
  const { error, answer } = await outcome(attempt);
  if (error) return error;
  throw new Error(`Expected a SyscallError, the answer is ${JSON.stringify(answer)}`);
}

/** The code of the SyscallError with which an attempt fails; "" when it does not. */
export async function codeOf(attempt: Attempt): Promise<string> {
  return (await outcome(attempt)).error?.code ?? "";
}

/** The same for a synchronous call. */
export function codeNow(attempt: () => unknown): string {
  try {
    attempt();
    return "";
  } catch (thrown) {
    return syscallError(thrown).code;
  }
}

async function outcome(attempt: Attempt): Promise<{ answer?: unknown; error?: SyscallError }> {
  try {
    return { answer: await (typeof attempt === "function" ? attempt() : attempt) };
  } catch (thrown) {
    return { error: syscallError(thrown) };
  }
}

function syscallError(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  throw thrown;
}
