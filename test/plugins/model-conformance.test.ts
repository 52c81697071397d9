import { describe, expect, test } from "bun:test";
import { providersDocument, withTables, writeProvidersDocument } from "../docs/providers-document.ts";
import { ANSWERS, describeAnswers } from "../support/model-server/conformance/answers.ts";
import { HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { describeEnds, ENDS } from "../support/model-server/conformance/ends.ts";
import { describeFaults, SILENCES } from "../support/model-server/conformance/fault-tests.ts";
import { FAULTS } from "../support/model-server/conformance/faults.ts";
import { Findings } from "../support/model-server/conformance/findings.ts";
import { describePrefix, PREFIX } from "../support/model-server/conformance/prefix.ts";

const findings = new Findings(HTTP_DRIVERS.map(({ title }) => title));

for (const driver of HTTP_DRIVERS)
  describe(driver.title, () => {
    describeAnswers(driver, findings);
    describePrefix(driver, findings);
    describeFaults(driver, findings);
    describeEnds(driver, findings);
  });

test("docs/providers.md has the tables of this run (UPDATE_DOCS=1 writes them; it takes the whole run)", () => {
  const document = providersDocument();
  const fresh = withTables(document, {
    answers: findings.table("an answer", [...Object.values(ANSWERS), PREFIX, ...Object.values(ENDS)], []),
    failures: findings.table(
      "what goes wrong",
      [...FAULTS.map(({ title }) => title), ...Object.values(SILENCES)],
      ["code", "asked again", "the run, if it stays"],
    ),
  });
  if (process.env.UPDATE_DOCS === "1") writeProvidersDocument(fresh);
  else expect(fresh).toBe(document);
});
