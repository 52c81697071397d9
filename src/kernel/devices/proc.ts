/** The device /proc. */

import { type Device, type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";
import type { GateStatus } from "../llm/model-gate.ts";
import type { ProcInfo } from "../types.ts";

interface ProcSource {
  info(pid: number): ProcInfo | undefined;
  contextSummary(pid: number): string;
  modelQueues(): GateStatus[];
}

/**
 * /proc/{pid}/status|intent|context, with "self" for the process that reads, and /proc/llm, the queues and limits
 * of the model providers: snapshots made at open, read-only.
 */
export function procDevice(source: ProcSource): Device {
  return {
    match: "prefix",
    factory(subpath, _flags, { process, project }) {
      if (subpath === "/llm") {
        return snapshotFile("llm", JSON.stringify({ queues: source.modelQueues() }));
      }
      const match = /^\/(\d+|self)\/(status|intent|context)$/.exec(subpath);
      const info = match ? source.info(match[1] === "self" ? process.pid : Number(match[1])) : undefined;
      // A run sees the processes of its project, in a sandbox those below it; a user's own command sees all.
      const reader = source.info(process.pid);
      let above = info;
      while (reader && reader.sandbox !== "none" && above && above.pid !== reader.pid)
        above = above.ppid === 0 ? undefined : source.info(above.ppid);
      if (!match || !info || !above || !(process.operator || info.project === project.dir)) {
        throw new SyscallError(
          "NOT_FOUND",
          `/proc${subpath} does not exist. Expected /proc/{pid}/status, intent or context of a live process ("self" for your own), or /proc/llm.`,
        );
      }
      const file = match[2] ?? "";
      return snapshotFile(subpath.slice(1), contentOf(file, info, source));
    },
  };
}

function contentOf(file: string, info: ProcInfo, source: ProcSource): string {
  if (file === "intent") return info.intent;
  if (file === "context") return source.contextSummary(info.pid);
  const { pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices } = info;
  return JSON.stringify({ pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices });
}

/** A read-only file whose text is fixed at open. Reads return it piece by piece. */
function snapshotFile(name: string, text: string): VFSFile {
  let position = 0;
  return {
    async write(): Promise<void> {
      throw new SyscallError("PERMISSION", `/proc/${name} is a snapshot and cannot be written.`);
    },
    async read(max: number): Promise<string> {
      const piece = text.slice(position, position + max);
      position += piece.length;
      return piece;
    },
    async close(): Promise<void> {
      position = text.length;
    },
    async stat(): Promise<FileStat> {
      return { name, size: Buffer.byteLength(text), isDevice: false, devicePath: "/proc" };
    },
  };
}
