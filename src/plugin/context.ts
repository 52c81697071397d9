/** The context of an open file: the process, its project, and the services that act for it. */

import type { Data } from "./file.ts";
import type { Services } from "./services.ts";

/** The process that opened the file. Services act for that process, with its rights, deadline and record. */
export interface OpenContext extends Partial<Services> {
  process: {
    pid: number;
    uuid: string;
    /** UUID of the root run of its tree of agents; its own for a root. */
    tree: string;
    agent: string;
    depth: number;
    /** A client with a terminal is attached, so the user can be asked. */
    attended: boolean;
    /** PID 0: a command of the user, not an agent. */
    operator: boolean;
  };
  project: { id: string; dir: string; trusted: boolean };
  /** Absolute. A driver never looks at process.cwd() or process.env. */
  cwd: string;
  /** Further folders the run may touch (`--add`), absolute. */
  folders: readonly string[];
  /** Rnix's own folders, absolute. A driver must not write there, and must not read where `readable` is false. */
  guarded: readonly GuardedFolder[];
  env: Readonly<Record<string, string>>;
  /** The hosts that the run reaches, as its option `network` lists them; absent: not limited. */
  network?: readonly string[];
  /**
   * Names what the programs of the process may do; absent: what the user may. Only processes with the same one may share a
   * program: the kernel starts one for each, whatever key they give.
   */
  policy?: string;
  /**
   * The tool call. `key` names this call among all calls of all runs. It is the same when the call is repeated after a
   * crash or a resume, so a service that remembers it can drop the second of two.
   */
  call?: { id: string; tool: string; deadlineMs: number; key: string };
  /** The plugin's settings from config.yaml, checked against its configSchema. For a model device: the provider's entry. */
  config: unknown;
  /** Shows the user a line about the call. */
  progress(text: string): void;
  /**
   * Shows output of the call while it runs. It is not part of the result. Attached clients get it coalesced; of much
   * output, the newest. `skipped`: how many lines before it the driver has left out.
   */
  output(text: string, skipped?: number): void;
  /**
   * Shows this list to the clients of the whole tree of the process, in place of the plugin's list before; [] removes it. It
   * is not recorded: store what must last. At most 200 items of 200 characters.
   */
  checklist(items: readonly ChecklistItem[]): void;
  /** Keeps this file (absolute) as it is, so that the user can take the change back. Call it before the change. */
  changing(file: string): Promise<void>;
  /** Reports that the driver changed this file (absolute). */
  changed(file: string): void;
  log(level: "debug" | "info" | "warn", text: string): void;
  /**
   * Stores data beside the run, each content once, in a file with this name's extension. Returns the absolute path.
   * Fails with EXHAUSTED when the run has stored too much.
   */
  spill(name: string, data: Data): Promise<string>;
  /**
   * Adds a text, at most 64 KiB, to the process's inbox. It is durable when this returns, and the model gets it once, at
   * its next step. Fails with EXHAUSTED when the inbox is full, and CLOSED when the run is ending.
   */
  inbox(text: string): Promise<void>;
  /**
   * Checks these files against the process's rules: for each path null, or why it is denied. Paths are real paths
   * (absolute, links resolved), read from the open descriptor. The kernel has already checked the path as written, but a
   * link in it may have changed since. `also`: tools whose deny patterns count too, so that a search leaves out what Read
   * may not read.
   */
  access(paths: readonly string[], also?: readonly string[]): Promise<(string | null)[]>;
  /**
   * Call it before a connection that the driver makes itself, with its URL. It is recorded, and fails with PERMISSION if
   * the run's network does not reach the host. Returns the addresses that were checked, of which one must be used; null:
   * the network is not limited.
   */
  connect(url: string): Promise<string[] | null>;
}

/** A folder of Rnix itself: records, trust, settings or keys. */
export interface GuardedFolder {
  dir: string;
  readable: boolean;
}

/** A line of a list that a plugin shows while a run works. */
export interface ChecklistItem {
  text: string;
  state: "open" | "active" | "done" | "dropped";
  /** Who works on it, or what it waits for. */
  note?: string;
}
