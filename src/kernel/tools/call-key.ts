/** The key of a tool call, the same when the call is repeated. */

/** Ids of most providers, which may stand in a header, a file name or a variable as they are. */
const PLAIN_ID = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * The key of a tool call: run, step, call. The journal has all three before the call starts, so a call that is repeated
 * after a crash or a resume has the same key. At most 128 letters, digits, ".", "_", "-" and ":".
 */
export function callKey(uuid: string, step: number, callId: string): string {
  return `${uuid}:${step}:${PLAIN_ID.test(callId) ? callId : hashed(callId)}`;
}

function hashed(callId: string): string {
  return new Bun.CryptoHasher("sha256").update(callId).digest("hex").slice(0, 32);
}
