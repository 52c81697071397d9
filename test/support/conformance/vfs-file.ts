import { expect } from "bun:test";
import {
  type Code,
  type Data,
  type FileStat,
  O_RDWR,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "../../../src/plugin/index.ts";
import type { DeviceRegistry } from "../../../src/vfs/namespace.ts";

/** A deadline far beyond what any call of a test needs: its own failure, not the suite's timeout, is shown. */
const GIVE_UP_MS = 25_000;
/** How quickly a call answers after its signal has fired, also where the machine is busy. */
export const ABORT_MS = 8_000;

/** Opens as the kernel does: by the whole path, through the table. NOT_FOUND when no device is there. */
export async function open(
  table: DeviceRegistry,
  path: string,
  context: OpenContext,
  flags: OpenFlag = O_RDWR,
): Promise<VFSFile> {
  const match = table.match(path);
  if (!match) throw new SyscallError("NOT_FOUND", `No device at ${path}.`);
  return match.entry.device.factory(match.subpath, flags, context);
}

/** One operation: write, then read until an empty piece. Pieces are at most `max` long. */
export async function exchange(
  file: VFSFile,
  input: Data | null,
  o: { max?: number; signal?: AbortSignal } = {},
): Promise<Data> {
  const { max = 65_536, signal = AbortSignal.timeout(GIVE_UP_MS) } = o;
  if (input !== null) await file.write(input, signal);
  const pieces: Data[] = [];
  for (;;) {
    const piece = await file.read(max, signal);
    expect(typeof piece === "string" || piece instanceof Uint8Array, "a read answers a string or bytes").toBe(
      true,
    );
    expect(piece.length, "a read answers at most what was asked for").toBeLessThanOrEqual(max);
    if (piece.length === 0) return joined(pieces);
    pieces.push(piece);
  }
}

/** Runs a call that may fail, and holds that it fails only with a SyscallError. */
export async function settled<T>(call: () => Promise<T>): Promise<T | SyscallError> {
  try {
    return await call();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown;
    throw new Error(`Only SyscallErrors may come out of a driver, this came: ${String(thrown)}`, {
      cause: thrown,
    });
  }
}

export function expectStat(stat: FileStat, devicePath: string): void {
  const types = [stat.name, stat.size, stat.isDevice, stat.devicePath].map((value) => typeof value);
  expect(types, JSON.stringify(stat)).toEqual(["string", "number", "boolean", "string"]);
  expect(`${stat.devicePath}/`, "the device's path or one below it").toStartWith(`${devicePath}/`);
}

export function expectCode(error: SyscallError, code: Code): void {
  expect(`${error.code}: ${error.message}`).toStartWith(`${code}: `);
}

export function text(data: Data): string {
  return typeof data === "string" ? data : new TextDecoder().decode(data);
}

function joined(pieces: Data[]): Data {
  if (pieces.every((piece) => typeof piece === "string")) return pieces.join("");
  return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}
