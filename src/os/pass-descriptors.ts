/** Open descriptors that one process gives to another over a socket (SCM_RIGHTS of unix(7)). Linux only. */

import { ptr } from "bun:ffi";
import { openLibrary } from "../lib/c-library.ts";

const SYMBOLS = {
  socketpair: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" },
  sendmsg: { args: ["i32", "ptr", "i32"], returns: "i64" },
  recvmsg: { args: ["i32", "ptr", "i32"], returns: "i64" },
} as const;

const AF_UNIX = 1;
const SEQUENCED_CLOEXEC = 5 | 0o2000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const DONTWAIT_NOSIGNAL = 0x40 | 0x4000;
const DONTWAIT_CLOEXEC = 0x40 | 0x40000000;
/** The size of a struct cmsghdr with two descriptors. */
const RIGHTS_BYTES = 24;

/** A struct msghdr of one byte, with room for two descriptors. */
const rights = new Int32Array(RIGHTS_BYTES / 4);
const byte = new Uint8Array(1);
const vector = new BigUint64Array(2);
const message = new BigUint64Array(7);

/** Two connected sockets that later programs do not inherit; null when no descriptor is left. */
export function socketPair(): [number, number] | null {
  const ends = new Int32Array(2);
  if (calls()?.socketpair(AF_UNIX, SEQUENCED_CLOEXEC, 0, ptr(ends)) !== 0) return null;
  return [ends[0] ?? -1, ends[1] ?? -1];
}

/** False on failure. Never waits. */
export function sendDescriptors(socket: number, descriptors: readonly [number, number]): boolean {
  rights.set([RIGHTS_BYTES, 0, SOL_SOCKET, SCM_RIGHTS, ...descriptors]);
  return calls()?.sendmsg(socket, messageAt(), DONTWAIT_NOSIGNAL) === 1n;
}

/** Two descriptors that were sent, which later programs do not inherit; null when there are none. Never waits. */
export function receiveDescriptors(socket: number): [number, number] | null {
  if (calls()?.recvmsg(socket, messageAt(), DONTWAIT_CLOEXEC) !== 1n) return null;
  const [length, , level, type, first = -1, second = -1] = rights;
  if (length !== RIGHTS_BYTES || level !== SOL_SOCKET || type !== SCM_RIGHTS) return null;
  return [first, second];
}

function messageAt(): ReturnType<typeof ptr> {
  vector.set([BigInt(ptr(byte)), 1n]);
  message.set([0n, 0n, BigInt(ptr(vector)), 1n, BigInt(ptr(rights)), BigInt(RIGHTS_BYTES), 0n]);
  return ptr(message);
}

function calls() {
  opened ??= { symbols: openLibrary(SYMBOLS) };
  return opened.symbols;
}

let opened: { symbols: ReturnType<typeof openLibrary<typeof SYMBOLS>> } | undefined;
