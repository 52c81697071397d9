/** GitHub's workflow commands: they show a failed run and its places beside the code of a pull request. */

import type { Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { oneLine } from "../output/format.ts";
import { resumeCommand, suspendedLine } from "../output/suspension.ts";
import type { Problem } from "./problems.ts";

/** GitHub shows at most ten errors of a step. */
const MAX_ANNOTATIONS = 10;

/** Lines to print. */
export function annotations(
  receipt: Receipt,
  problems: readonly Problem[],
  resumeFlags: readonly string[],
): string[] {
  const { exit_code, exit_reason, error, notices, uuid, suspended } = receipt;
  const resume = resumeCommand(uuid, resumeFlags);
  const lines = notices.map((notice) => command("warning", { title: "Rnix" }, notice));
  if (exit_code === EXIT.ok) return lines;
  if (exit_code === EXIT.suspended)
    return [...lines, command("warning", { title: "Rnix: suspended" }, suspendedLine(resume, suspended))];
  for (const { path, line, column, message, check } of problems.slice(0, MAX_ANNOTATIONS - 1)) {
    const place = { file: path, line: String(line), ...(column !== null && { col: String(column) }) };
    lines.push(command("error", { ...place, title: oneLine(check, 100) }, message));
  }
  lines.push(command("error", { title: `Rnix: ${exit_reason}` }, error?.message ?? `exit ${exit_code}`));
  return lines;
}

/** `::error file=a.ts,line=1::message`, with GitHub's escapes. */
function command(name: string, properties: Readonly<Record<string, string>>, message: string): string {
  const given = Object.entries(properties).map(
    ([key, value]) => `${key}=${data(value).replaceAll(":", "%3A").replaceAll(",", "%2C")}`,
  );
  return `::${name} ${given.join(",")}::${data(message)}`;
}

function data(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}
