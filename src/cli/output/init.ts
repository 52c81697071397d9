/** Formats the units of init.yaml. */

import type { DaemonStatus, InitUnitWire } from "../../protocol/methods.ts";
import type { Output } from "../io.ts";
import { formatElapsed } from "./format.ts";
import type { Style } from "./style.ts";
import { type Column, table } from "./table.ts";

/** Formats the units of init.yaml and which of them are not up. Empty if there are none. */
export function initText(
  { init, init_problems, started_at_ms, uptime_ms }: DaemonStatus,
  output: Output,
  style: Style,
): string {
  const now = started_at_ms + uptime_ms;
  const columns: Column<InitUnitWire>[] = [
    { title: "INIT", value: ({ name }) => name },
    { title: "TYPE", value: ({ type }) => type },
    { title: "REQUIRED", value: ({ required }) => (required ? "yes" : "no") },
    { title: "STATE", value: ({ state }) => state },
    { title: "FOR", value: ({ since_ms }) => formatElapsed(Math.max(0, now - since_ms)), right: true },
    { title: "PID", value: ({ pid }) => (pid === null ? "-" : String(pid)), right: true },
    { title: "RESTARTS", value: ({ restarts }) => (restarts === null ? "-" : String(restarts)), right: true },
    { title: "PROJECT", value: ({ project }) => (project === null ? "-" : project) },
    { title: "ERROR", value: ({ error }) => error ?? "-", flexible: true },
  ];
  const units = init.length === 0 ? "" : `\n${table(init, columns, output, style)}`;
  const problems = init_problems.map(
    ({ path, message }) => `\nnot running: ${path}\n  ${message.replaceAll("\n", "\n  ")}\n`,
  );
  return units + problems.join("");
}
