import { SyscallError } from "../../../src/plugin/index.ts";

/** The error that this must end with. */
export async function refusal(promise: Promise<unknown>): Promise<SyscallError> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    if (error instanceof SyscallError) return error;
    throw error;
  }
  throw new Error(`expected a refusal, got ${JSON.stringify(value)}`);
}

/** The code of an error as the server sent it: VERSION and the like included. */
export function wireCode({ cause, code }: SyscallError): string {
  const isSent = typeof cause === "object" && cause !== null && !(cause instanceof Error) && "code" in cause;
  return isSent ? String(cause.code) : code;
}
