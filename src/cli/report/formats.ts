/** The end of a run as JUnit, as GitLab's code quality report, and as GitHub's workflow commands. */

import { lastAttempt } from "../../lib/check-attempts.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { oneLine } from "../output/format.ts";
import { type JunitCase, junitXml } from "../output/junit.ts";
import { jsonText } from "../output/print.ts";
import { resumeCommand, suspendedLine } from "../output/suspension.ts";
import type { Problem } from "./problems.ts";

/** The run and the checks of its last attempt as test cases in JUnit XML. */
export function checkReport(intent: string, receipt: Receipt): string {
  const { exit_code, exit_reason, error, elapsed_ms, checks } = receipt;
  const why = error?.message ?? `exit ${exit_code}`;
  const cases = lastAttempt(checks).map(
    ({ command, exit_code: code, elapsed_ms: ms = 0, output = "" }): JunitCase => {
      const failed = { kind: "failure", message: `exit ${code ?? "none"}`, text: output } as const;
      return { name: command, group: "rnix check", ms, problem: code === 0 ? null : failed };
    },
  );
  const run: JunitCase = {
    name: intent,
    group: "rnix run",
    ms: Math.max(0, elapsed_ms - cases.reduce((sum, { ms }) => sum + ms, 0)),
    problem: exit_code === EXIT.ok ? null : { kind: "failure", message: exit_reason, text: why },
  };
  return junitXml("rnix", [run, ...cases]);
}

/** GitLab's code quality report: a list of problems in the form of Code Climate. */
export function codeQuality(problems: readonly Problem[]): string {
  const issues = problems.map(({ path, line, message, check }) => ({
    description: message,
    check_name: check,
    // Without the line, so that GitLab knows the problem again after an edit above it.
    fingerprint: new Bun.CryptoHasher("sha256").update(`${path}\0${check}\0${message}`).digest("hex"),
    severity: "major",
    location: { path, lines: { begin: line } },
  }));
  return jsonText(issues);
}

/** GitHub shows at most ten errors of a step. */
const MAX_ANNOTATIONS = 10;

/** They show a failed run and its places beside the code of a pull request. */
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
