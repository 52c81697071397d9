import { describe, expect, test } from "bun:test";
import { inertJson, isPipeline, PipelineText } from "../../src/cli/output/pipeline-text.ts";

const COMMANDS = [
  "::error::x",
  "  \t::set-env name=A::b",
  "::add-mask::x",
  "##[group]x",
  "a ##[add-path]/x",
  "##vso[task.setvariable variable=A]b",
  "text ##VSO[task.prependpath]/x",
  "##teamcity[setParameter name='a' value='b']",
  "a\r::error::x",
  "a\n\n ::error::x",
  "\u0085::error::x",
];
/** As the runners read a line. */
const RUNS = /(?<![^\n\r])[\s\u0085]*::[a-z-]+(?: [^:\n]*)?::|##\[[a-z-]+|##vso\[|##teamcity\[/i;

function printed(whole: string, length: number): string {
  const text = new PipelineText();
  let shown = "";
  for (let at = 0; at < whole.length; at += length) shown += text.inert(whole.slice(at, at + length));
  return shown;
}

describe("what a pipeline would execute", () => {
  test.each(COMMANDS)(
    "%j is inert in one piece, in pieces of each length, and after other text",
    (command) => {
      expect(command).toMatch(RUNS);
      for (const before of ["", "x\n", "#", "##", ":", `${"x".repeat(100)}\n`, " ".repeat(100)]) {
        const whole = before + command;
        for (let length = 1; length <= whole.length; length++) {
          const shown = printed(whole, length);
          expect(shown).not.toMatch(RUNS);
          expect(shown.replaceAll("\u200b", "")).toBe(whole);
        }
      }
    },
  );

  test("other text stays as it is", () => {
    const plain = "## Title\na::b std::vec\n# [x] ##x[ #[y]\nIPv6 ::1\n";
    for (let length = 1; length <= plain.length; length++) expect(printed(plain, length)).toBe(plain);
  });

  test("JSON is inert and has the same value", () => {
    const value = { "##[a]": ["\\##vso[x]", "##teamcity[x]", "## Title", "###[x]"] };
    expect(inertJson(value)).not.toMatch(/##(?:vso|teamcity)?\[/);
    expect(inertJson(value)).toContain("## Title");
    for (const indent of [undefined, 2]) expect(JSON.parse(inertJson(value, indent))).toEqual(value);
  });

  test("a pipeline is known by the variables of its runner", () => {
    expect(isPipeline({})).toBe(false);
    expect(isPipeline({ CI: "true", GITHUB_ACTIONS: "false", TF_BUILD: "" })).toBe(false);
    for (const name of ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"])
      expect(isPipeline({ [name]: "true" })).toBe(true);
  });
});
