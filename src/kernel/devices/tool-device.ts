/** The device of a kernel tool. */

import {
  type Device,
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
  call: NonNullable<OpenContext["call"]>;
  signal: AbortSignal;
}

/** The JSON Schema of an input with these fields and no others. */
export function inputOf(required: readonly string[], properties: Record<string, object>): object {
  return {
    type: "object",
    properties,
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}

/** `lookup` finds the process that opened the file, by its UUID. */
export function toolDevice(tool: KernelTool, lookup: (uuid: string) => Process): Device {
  return { tools: [tool.tool], factory: (_subpath, _flags, context) => toolFile(tool, lookup, context) };
}

/** One operation per file: write the input, read the result. */
function toolFile(
  { path, tool, run }: KernelTool,
  lookup: (uuid: string) => Process,
  { process, call }: OpenContext,
): VFSFile {
  let result = "";
  return {
    async write(data, signal) {
      signal.throwIfAborted();
      if (!call)
        throw new SyscallError(
          "INVALID",
          `${tool.name} is the device of a tool: only a tool call can use it.`,
        );
      const text = typeof data === "string" ? data : new TextDecoder().decode(data);
      const proc = lookup(process.uuid);
      result = await run({ proc, input: parseInput(tool.name, text), call, signal });
    },
    async read(max) {
      const piece = result.slice(0, max);
      result = result.slice(piece.length);
      return piece;
    },
    async close() {
      result = "";
    },
    async stat() {
      const { name } = tool;
      return { name, size: result.length, isDevice: true, devicePath: path, pid: process.pid };
    },
  };
}

function parseInput(tool: string, text: string): Record<string, unknown> {
  let value: unknown;
  let cause: unknown;
  try {
    value = JSON.parse(text);
  } catch (thrown) {
    cause = thrown;
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new SyscallError("INVALID", `${tool}: expected a JSON object, got ${text.slice(0, 100)}`, { cause });
}
