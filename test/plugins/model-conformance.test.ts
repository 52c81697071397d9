import { describe, expect, test } from "bun:test";
import { providersDocument, withTables, writeProvidersDocument } from "../docs/providers-document.ts";
import { ANSWERS, describeAnswers } from "../support/model-server/conformance/answers.ts";
import { HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { describeEnds, ENDS } from "../support/model-server/conformance/ends.ts";
import { describeFaults, SILENCES } from "../support/model-server/conformance/fault-tests.ts";
import { FAULTS } from "../support/model-server/conformance/faults.ts";
import { Findings } from "../support/model-server/conformance/findings.ts";
import { describeMutations, MUTATIONS } from "../support/model-server/conformance/mutations.ts";
import { describePrefix, PREFIX } from "../support/model-server/conformance/prefix.ts";
import { describePrograms, PROGRAM_DRIVERS, PROGRAMS } from "../support/model-server/conformance/programs.ts";
import { REPLAY } from "../support/model-server/conformance/replay.ts";
import { describeWire, overHttp, WIRE } from "../support/model-server/conformance/wire.ts";

const findings = new Findings();
/** What takes a connection. */
const CONNECTED = [...Object.values(WIRE), PREFIX, MUTATIONS, ...Object.values(ENDS)];

for (const driver of HTTP_DRIVERS)
  describe(driver.title, () => {
    describeAnswers(overHttp(driver), findings);
    describeWire(driver, findings);
    describePrefix(driver, findings);
    describeMutations(driver, findings);
    describeEnds(driver, findings);
    describeFaults(driver, findings);
  });

describe(REPLAY.title, () => {
  describeAnswers(REPLAY, findings);
  for (const row of CONNECTED) findings.without(row, REPLAY.title);
});

for (const driver of PROGRAM_DRIVERS) describe(driver.title, () => describePrograms(driver, findings));

test("docs/providers.md has the tables of this run (UPDATE_DOCS=1 writes them; it takes the whole run)", () => {
  const document = providersDocument();
  const drivers = HTTP_DRIVERS.map(({ title }) => title);
  const answers = [...Object.values(ANSWERS), ...CONNECTED];
  const failures = [...FAULTS.map(({ title }) => title), ...Object.values(SILENCES)];
  const fresh = withTables(document, {
    answers: findings.table("an answer", answers, [...drivers, REPLAY.title]),
    failures: findings.table("what goes wrong", failures, drivers, [
      "code",
      "asked again",
      "the run, if it stays",
    ]),
    programs: findings.table(
      "a program as a model",
      Object.values(PROGRAMS),
      PROGRAM_DRIVERS.map(({ title }) => title),
      ["code", "may be asked again"],
    ),
  });
  if (process.env.UPDATE_DOCS === "1") writeProvidersDocument(fresh);
  else expect(fresh).toBe(document);
});
