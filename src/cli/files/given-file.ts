/** Reads a file that a flag names: a regular file, or a pipe such as `<(command)`. */

import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { errnoOf } from "../../lib/error-detail.ts";
import { OPEN_REGULAR, readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";

const MAX_BYTES = 1024 ** 2;
/** The deadline for a whole pipe, whose command may still have to start. */
const PIPE_MS = 10_000;
/** The interval between two reads of an empty pipe. */
const POLL_MS = 10;

/** Fails with INVALID for anything else, for more than 1 MiB and for a pipe that does not end within 10 s. */
export async function readGivenFile(io: Pick<Io, "timer">, path: string): Promise<Buffer> {
  return statSync(path).isFIFO() ? readPipe(io, path) : readRegularSync(path, MAX_BYTES);
}

async function readPipe(io: Pick<Io, "timer">, path: string): Promise<Buffer> {
  let late = false;
  const deadline = io.timer(PIPE_MS, () => {
    late = true;
  });
  const fd = openSync(path, OPEN_REGULAR);
  try {
    if (!fstatSync(fd).isFIFO()) throw invalid(path, "it was exchanged while it was being opened. Try again");
    const chunks: Buffer[] = [];
    let size = 0;
    for (;;) {
      const chunk = readNow(fd);
      // A pipe without a writer looks ended. It has ended only if data has arrived.
      if (chunk?.length === 0 && size > 0) return Buffer.concat(chunks);
      if (late) throw invalid(path, `expected its end within ${PIPE_MS / 1000} s. Write it to a file first`);
      if (chunk === null || chunk.length === 0) {
        await new Promise<void>((resolve) => void io.timer(POLL_MS, resolve));
        continue;
      }
      chunks.push(chunk);
      size += chunk.length;
      if (size > MAX_BYTES) throw invalid(path, `expected at most ${MAX_BYTES / 1024 ** 2} MiB`);
    }
  } finally {
    closeSync(fd);
    deadline.cancel();
  }
}

/** The bytes that can be read now; null when there are none yet, empty at the end. */
function readNow(fd: number): Buffer | null {
  const buffer = Buffer.allocUnsafe(64 * 1024);
  try {
    return buffer.subarray(0, readSync(fd, buffer));
  } catch (thrown) {
    if (errnoOf(thrown) === "EAGAIN") return null;
    throw thrown;
  }
}

function invalid(path: string, why: string): SyscallError {
  return new SyscallError("INVALID", `${path}: ${why}.`);
}
