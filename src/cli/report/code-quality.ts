/** GitLab's code quality report of a run. */

import { jsonText } from "../output/print.ts";
import type { Problem } from "./problems.ts";

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
