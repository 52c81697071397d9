import { describe } from "bun:test";
import { describeAnswers } from "../support/model-server/conformance/answers.ts";
import { HTTP_DRIVERS } from "../support/model-server/conformance/driver.ts";
import { describeEnds } from "../support/model-server/conformance/ends.ts";
import { describeFaults } from "../support/model-server/conformance/fault-tests.ts";
import { Findings } from "../support/model-server/conformance/findings.ts";

const findings = new Findings(HTTP_DRIVERS.map(({ title }) => title));

for (const driver of HTTP_DRIVERS)
  describe(driver.title, () => {
    describeAnswers(driver, findings);
    describeFaults(driver, findings);
    describeEnds(driver, findings);
  });
