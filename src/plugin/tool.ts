/** A tool as the model sees it, and calls of tools by a driver. */

import type { Code } from "./errors.ts";

export interface ToolAnnotations {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface ToolDef {
  /** The name that the model sees: `Read`, `Bash`. */
  name: string;
  description: string;
  /** JSON Schema of the input. */
  input: object;
  /** The `op` that is written to the device. By default the name. */
  op?: string;
  /** The input field that is appended to the device's path at Open. */
  path?: string;
  /** The input field that a pattern like `Bash(git *)` is matched against. */
  subject?: string;
  /**
   * `subject` is the root of a search, and the driver calls `access` for each file below it before it reads or names the
   * file. Denied files are then left out instead of failing the call.
   */
  filters?: boolean;
  /** A `subject` below /proc is read from the kernel's /proc, with this tool's rules, and not from the device. */
  proc?: boolean;
  timeoutMs?: number;
  /** Characters of the result shown to the model; the rest is kept in a file. */
  maxResult?: number;
  /** The model first sees only the name, in the description of ToolSearch, which loads the tool before its use. */
  defer?: boolean;
  annotations?: ToolAnnotations;
  /**
   * Its results hold text that others wrote, such as `web`: whose. A run that has read it is tainted, and then asks before
   * it acts outside.
   */
  origin?: string;
  /** What it writes is read by later runs, so a tainted run asks before it calls the tool. */
  lasting?: boolean;
}

/**
 * The process's own tools, with its rights, deadlines and record. Fails with PERMISSION for a driver that is not the
 * process's model, and with CLOSED outside a model call.
 */
export interface ToolService {
  /** The tools that the model of this process may use now. */
  list(): Promise<ToolDef[]>;
  /** Calls a tool and returns its text for the model. A failed call does not throw; it has an `error` code. */
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

export interface ToolOutcome {
  text: string;
  error?: Code;
}
