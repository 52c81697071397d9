/** The device of a kernel tool. */

import {
  type Device,
  type FileStat,
  type OpenContext,
  SyscallError,
  type ToolDef,
  type VFSFile,
} from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";

/** A tool of the kernel: a device below /dev/kernel that acts on the process that opened it. */
export interface KernelTool {
  path: string;
  tool: ToolDef;
  run(call: KernelCall): string | Promise<string>;
}

export interface KernelCall {
  proc: Process;
  input: Record<string, unknown>;
  /** Absent for a raw open, which is no tool call. */
  call: OpenContext["call"];
  signal: AbortSignal;
}

/** `lookup` finds the process that opened the file, by its UUID. */
export function toolDevice(tool: KernelTool, lookup: (uuid: string) => Process): Device {
  return {
    tools: [tool.tool],
    factory: (_subpath, _flags, context) => new ToolFile(tool, lookup, context),
  };
}

/** One operation per file: write the input, read the result. */
class ToolFile implements VFSFile {
  readonly #tool: KernelTool;
  readonly #lookup: (uuid: string) => Process;
  readonly #context: OpenContext;
  #result = "";

  constructor(tool: KernelTool, lookup: (uuid: string) => Process, context: OpenContext) {
    this.#tool = tool;
    this.#lookup = lookup;
    this.#context = context;
  }

  async write(data: string | Uint8Array, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    const { process, call } = this.#context;
    const proc = this.#lookup(process.uuid);
    const input = parseInput(this.#tool.tool.name, text);
    this.#result = await this.#tool.run({ proc, input, call, signal });
  }

  async read(max: number): Promise<string> {
    const piece = this.#result.slice(0, max);
    this.#result = this.#result.slice(piece.length);
    return piece;
  }

  async close(): Promise<void> {
    this.#result = "";
  }

  async stat(): Promise<FileStat> {
    return {
      name: this.#tool.tool.name,
      size: this.#result.length,
      isDevice: true,
      devicePath: this.#tool.path,
      pid: this.#context.process.pid,
    };
  }
}

function parseInput(tool: string, text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  } catch (cause) {
    throw new SyscallError("INVALID", `${tool}: expected a JSON object, got ${text.slice(0, 100)}`, {
      cause,
    });
  }
  throw new SyscallError("INVALID", `${tool}: expected a JSON object, got ${text.slice(0, 100)}`);
}
