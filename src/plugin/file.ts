/** An open file of a device: what a driver implements. */

/** The data of reads and writes: a string for JSON and text, bytes for binary data. */
export type Data = string | Uint8Array;

export const O_RDONLY = 0;
export const O_WRONLY = 1;
export const O_RDWR = 2;
export type OpenFlag = 0 | 1 | 2;

export interface FileStat {
  name: string;
  /** Bytes, 0 where a device has no size. */
  size: number;
  isDevice: boolean;
  devicePath: string;
  [more: string]: unknown;
}

/**
 * One open file. Before each call the kernel checks permission and, for a tool's device, the input's schema. It never
 * makes two calls on one file at the same time. It gives up at the deadline, even if the driver ignores the signal.
 */
export interface VFSFile {
  /** Starts one operation: `{op, ...input}` as JSON for a tool, or plain bytes. Throws only `SyscallError`. */
  write(data: Data, signal: AbortSignal): Promise<void>;
  /** Returns the next part of the answer, at most `max` bytes (UTF-16 units of a string). Empty is the end. */
  read(max: number, signal: AbortSignal): Promise<Data>;
  /** Called exactly once, also after an abort. Frees everything. Never throws. */
  close(): Promise<void>;
  stat(): Promise<FileStat>;
}
