import { expect, test } from "bun:test";
import { junitXml } from "../../src/cli/output/junit.ts";

test("a report counts its cases and shows each problem, in text that every XML reader takes", () => {
  const xml = junitXml("suite", [
    { name: "a", group: "g", ms: 1500, problem: null },
    {
      name: 'b "<&>',
      group: "g",
      ms: 20,
      problem: { kind: "failure", message: "two\nlines", text: "\u001b[31mred\u0000 <x>" },
    },
    { name: "c", group: "g", ms: 0, problem: { kind: "error", message: "m", text: "t" } },
  ]);
  expect(xml).toBe(`<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="suite" tests="3" failures="1" errors="1" time="1.520">
  <testsuite name="suite" tests="3" failures="1" errors="1" time="1.520">
    <testcase name="a" classname="g" time="1.500"/>
    <testcase name="b &quot;&lt;&amp;&gt;" classname="g" time="0.020">
      <failure message="two&#10;lines">\ufffd[31mred\ufffd &lt;x&gt;</failure>
    </testcase>
    <testcase name="c" classname="g" time="0.000">
      <error message="m">t</error>
    </testcase>
  </testsuite>
</testsuites>
`);
});
