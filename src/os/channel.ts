/** Programs that exchange messages with this process: those of plugins. */

import { readFileSync } from "node:fs";
import { errnoOf } from "../lib/error-detail.ts";
import type { ProgramChannel } from "../lib/program-channel.ts";
import { type Exit, exitOf, signal } from "./signal.ts";

/** A started program, the leader of its own session and group. */
export interface Channel extends Pick<ProgramChannel, "send" | "hold"> {
  pid: number;
  exited: Promise<Exit>;
}

interface ChannelOptions {
  /** Descriptors that it has from 3 on. */
  inherit?: number[] | undefined;
  /** False: what it sends is read as JSON. */
  isTrusted?: boolean;
}

export function openChannel(
  argv: string[],
  cwd: string,
  env: Record<string, string>,
  onMessage: (message: unknown) => void,
  { inherit = [], isTrusted = true }: ChannelOptions = {},
): Channel {
  const proc = Bun.spawn(argv, {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "ignore", "ignore", ...inherit],
    serialization: isTrusted ? "advanced" : "json",
    ipc: onMessage,
  });
  return {
    pid: proc.pid,
    exited: exitOf(proc),
    send: (message) => void proc.send(message),
    hold(holds) {
      if (holds) proc.ref();
      else proc.unref();
    },
  };
}

/** A program that crashes in native code reports that to no server. */
export const PLUGIN_ENV: Record<string, string> = { DO_NOT_TRACK: "1" };

/** Starts a program for a command that has no kernel. Only its group is ended, not what has left that. */
export function startProgram(argv: string[], onMessage: (message: unknown) => void): ProgramChannel {
  const { pid, exited, ...channel } = openChannel(argv, "/", PLUGIN_ENV, onMessage);
  return {
    ...channel,
    ended: exited,
    kill: () => void signal(-pid, "SIGKILL"),
    memory: () => residentBytes(pid),
  };
}

/** Its memory, without what it shares with other programs; null where /proc does not show it. */
export function residentBytes(pid: number): number | null {
  try {
    const [, resident = "0", shared = "0"] = readFileSync(`/proc/${pid}/statm`, "latin1").split(" ");
    return (Number(resident) - Number(shared)) * PAGE_BYTES;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return null;
  }
}

const PAGE_BYTES = 4096;
