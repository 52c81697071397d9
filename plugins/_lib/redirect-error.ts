/** The error for a server that redirects requests to another address. */

import { SyscallError } from "rnix/plugin";

/** A server redirects to an address that is not followed, because requests may hold a key. */
export function redirectError(
  server: string,
  status: number,
  location: string,
  setting: string,
): SyscallError {
  const message = `${server} answered ${status}: ask at ${JSON.stringify(location)}. The redirect was not followed; if that address is right, set ${setting}`;
  return new SyscallError("UNAVAILABLE", message, { retryable: false });
}
