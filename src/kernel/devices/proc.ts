/** The device /proc. */

import { type Device, SyscallError } from "../../plugin/index.ts";
import type { GateStatus } from "../llm/model-gate.ts";
import type { ProcInfo } from "../types.ts";
import { snapshotFile } from "./snapshot-file.ts";

interface ProcSource {
  info(pid: number): ProcInfo | undefined;
  contextSummary(pid: number): string;
  modelQueues(): GateStatus[];
}

/**
 * /proc/{pid}/status|intent|context (seeds 2.5), with "self" for the process that reads, and /proc/llm, the queues and limits of the model providers:
 * snapshots made at open, read-only.
 */
export function procDevice(source: ProcSource): Device {
  return {
    match: "prefix",
    factory(subpath, _flags, { process, project }) {
      if (subpath === "/llm") {
        return snapshotFile("/proc", "llm", JSON.stringify({ queues: source.modelQueues() }));
      }
      const match = /^\/(\d+|self)\/(status|intent|context)$/.exec(subpath);
      const info = match ? source.info(match[1] === "self" ? process.pid : Number(match[1])) : undefined;
      // A run sees the processes of its project; a user's own command sees all.
      if (!match || !info || !(process.operator || info.project === project.dir)) {
        throw new SyscallError(
          "NOT_FOUND",
          `/proc${subpath} does not exist. Expected /proc/{pid}/status, intent or context of a live process ("self" for your own), or /proc/llm.`,
        );
      }
      const file = match[2] ?? "";
      return snapshotFile("/proc", subpath.slice(1), contentOf(file, info, source));
    },
  };
}

function contentOf(file: string, info: ProcInfo, source: ProcSource): string {
  if (file === "intent") return info.intent;
  if (file === "context") return source.contextSummary(info.pid);
  const { pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices } = info;
  return JSON.stringify({ pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices });
}
