/** The JUnit report of a run. */

import { lastAttempt } from "../../lib/check-attempts.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { type JunitCase, junitXml } from "../output/junit.ts";

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
