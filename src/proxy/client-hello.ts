/** Reads the server name (SNI) of a TLS ClientHello. */

const HANDSHAKE = 0x16;
const CLIENT_HELLO = 1;
const SERVER_NAME = 0;
/** A ClientHello that is larger is none. */
const MAX_HELLO = 64 * 1024;

/**
 * What the first bytes of a connection are: `more` when they don't decide it yet, `other` when they are not TLS, `bad`
 * for a broken ClientHello. `name` is null in a ClientHello without a server name.
 */
export type Hello = "more" | "other" | "bad" | { name: string | null };

export function readHello(bytes: Buffer): Hello {
  if (bytes.length === 0) return "more";
  if (bytes[0] !== HANDSHAKE) return "other";
  const message = handshakeOf(bytes);
  if (typeof message === "string") return message;
  try {
    return { name: serverName(message) };
  } catch (error) {
    if (error instanceof RangeError) return "bad";
    throw error;
  }
}

/** The first handshake message, which may lie in several records. */
function handshakeOf(bytes: Buffer): Buffer | "more" | "bad" {
  const pieces: Buffer[] = [];
  let length = 0;
  for (let at = 0; length < MAX_HELLO; ) {
    if (bytes.length < at + 5) return "more";
    if (bytes[at] !== HANDSHAKE) return "bad";
    const size = bytes.readUInt16BE(at + 3);
    const piece = bytes.subarray(at + 5, at + 5 + size);
    if (size === 0) return "bad";
    pieces.push(piece);
    length += piece.length;
    const message = Buffer.concat(pieces);
    if (message.length > 0 && message[0] !== CLIENT_HELLO) return "bad";
    if (message.length >= 4 && message.length >= 4 + message.readUIntBE(1, 3))
      return message.subarray(4, 4 + message.readUIntBE(1, 3));
    if (piece.length < size) return "more";
    at += 5 + size;
  }
  return "bad";
}

/** Throws a RangeError where a length leads out of the message. */
function serverName(hello: Buffer): string | null {
  // Version and random, then three fields with a length: session, ciphers, compression.
  let at = 34;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  if (at >= hello.length) return null;
  const end = at + 2 + hello.readUInt16BE(at);
  for (at += 2; at < end; ) {
    const kind = hello.readUInt16BE(at);
    const size = hello.readUInt16BE(at + 2);
    if (kind === SERVER_NAME) return hostNameIn(hello.subarray(at + 4, at + 4 + size));
    at += 4 + size;
  }
  return null;
}

function hostNameIn(list: Buffer): string {
  const size = list.readUInt16BE(3);
  const name = list.subarray(5, 5 + size);
  if (list.readUInt8(2) !== 0 || name.length !== size || size === 0) throw new RangeError("no host name");
  return name.toString("latin1").toLowerCase().replace(/\.$/, "");
}
