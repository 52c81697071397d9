/** Writes test results as JUnit XML, which GitLab, Jenkins and most CI services show. */

export interface JunitCase {
  name: string;
  /** The group that a viewer shows it in. */
  group: string;
  ms: number;
  /** null: it passed. `error`: it could not be run. */
  problem: { kind: "failure" | "error"; message: string; text: string } | null;
}

export function junitXml(suite: string, cases: readonly JunitCase[]): string {
  const counts = ["failure", "error"].map((kind) => cases.filter((one) => one.problem?.kind === kind).length);
  const seconds = (ms: number): string => (ms / 1000).toFixed(3);
  const totals = attributes({
    name: suite,
    tests: String(cases.length),
    failures: String(counts[0]),
    errors: String(counts[1]),
    time: seconds(cases.reduce((sum, { ms }) => sum + ms, 0)),
  });
  const rows = cases.map(({ name, group, ms, problem }) => {
    const of = attributes({ name, classname: group, time: seconds(ms) });
    if (problem === null) return `    <testcase${of}/>`;
    const { kind, message, text } = problem;
    return `    <testcase${of}>\n      <${kind}${attributes({ message })}>${escaped(text)}</${kind}>\n    </testcase>`;
  });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${totals}>`,
    `  <testsuite${totals}>`,
    ...rows,
    "  </testsuite>",
    "</testsuites>",
    "",
  ].join("\n");
}

function attributes(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => ` ${name}="${escaped(value).replaceAll("\n", "&#10;")}"`)
    .join("");
}

/** XML 1.0 has no way to write most control characters, so they are shown as U+FFFD. */
function escaped(text: string): string {
  const invalid = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
  return Bun.escapeHTML(text.toWellFormed().replace(invalid, "\ufffd"));
}
