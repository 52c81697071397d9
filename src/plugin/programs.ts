/** The service `exec`: programs that a driver starts. */

import type { Data } from "./file.ts";

export interface ExecRequest {
  argv: string[];
  /** Absolute. By default the run's folder. */
  cwd?: string;
  /** Added to the run's environment. */
  env?: Record<string, string>;
  /** Data to send before the end; "pipe" to use Child.write; absent for /dev/null. */
  stdin?: Data | "pipe";
  pty?: boolean;
  timeoutMs?: number;
  /** The limit of bytes kept on disk, of stdout and stderr together. The rest is counted and dropped. */
  maxOutput?: number;
  /**
   * What the program has beyond the sandbox and the network of the process, because it is the process's model: its login,
   * and the hosts of its provider. Fails with PERMISSION for any but the stock driver of that model.
   */
  grants?: ProgramGrants;
  /** The owner: this call, the process, or a shared key. A shared program ends after `idleMs` without use. */
  life: "call" | "process" | { shared: string; idleMs: number };
}

/** Absolute paths, and entries of the option `network`. What is not there is not granted. */
export interface ProgramGrants {
  write: string[];
  /** Also of `write`: these parts of it are read-only. */
  read: string[];
  hosts: string[];
}

export interface Child {
  pid: number;
  /** A shared program that was already running. */
  reused: boolean;
  write(data: Data): Promise<void>;
  /** Ends its stdin. */
  end(): Promise<void>;
  /** The next output; null when the program has exited and all its output was read. */
  read(): Promise<{ fd: 1 | 2; data: Uint8Array } | null>;
  exited(): Promise<ExitInfo>;
  /** Sends TERM to the group, waits the grace, sends KILL to the group, then kills remaining descendants. */
  kill(): Promise<void>;
  /**
   * Resolves to true when the user wants it in the background: `units.move` makes it a unit. To false when it has exited.
   * Absent in a Worker.
   */
  toBackground?(): Promise<boolean>;
}

export interface ExitInfo {
  code: number | null;
  signal: string | null;
  timedOut: boolean;
  /** Absolute path of the whole output, if it was larger than the part kept in memory. */
  outputFile?: string;
  /** All bytes of output, and how many of them were dropped at the limit. */
  outputBytes: number;
  droppedBytes: number;
}
