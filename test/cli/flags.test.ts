import { describe, expect, test } from "bun:test";
import { parseArgs } from "node:util";
import { bool, list, parse, text } from "../../src/cli/flags.ts";

const FLAGS = {
  all: bool("all", { short: "a" }),
  quiet: bool("quiet", { short: "q" }),
  name: text("a name", "NAME", { short: "n" }),
  allow: list("tools", "TOOL"),
};
const OPTIONS = {
  all: { type: "boolean", short: "a", multiple: true },
  quiet: { type: "boolean", short: "q", multiple: true },
  name: { type: "string", short: "n", multiple: true },
  allow: { type: "string", multiple: true },
} as const;

/** Of these every line of up to three words is tried. */
const WORDS = [
  ...["x", "-", "--", "", "-5", "--all", "--all=", "--all=x", "-a", "-q", "-aq", "-qa", "-ax", "-z"],
  ...[
    "--name",
    "--name=",
    "--name=x=y",
    "--name=-x",
    "-n",
    "-nx",
    "-qn",
    "-qnx",
    "-an=x",
    "--nam",
    "--no-all",
  ],
  ...["--allow", "--allow=Bash(git *)", "--constructor", "--=x", "---all"],
];
const LINES = ["", ...WORDS].flatMap((one) =>
  WORDS.flatMap((two) => WORDS.map((three) => (one === "" ? [two, three] : [one, two, three]))),
);

describe("the arguments", () => {
  test("are read as node:util's strict parseArgs reads them, and refused where it refuses", () => {
    const differing = LINES.filter((args) => !Bun.deepEquals(ours(args), theirs(args)));
    expect(differing).toEqual([]);
  });
});

function ours(args: string[]): unknown {
  try {
    const { values, positionals } = parse(args, FLAGS);
    return { values: Object.fromEntries(values), positionals };
  } catch {
    return "refused";
  }
}

function theirs(args: string[]): unknown {
  try {
    const { values, positionals } = parseArgs({
      args,
      options: OPTIONS,
      allowPositionals: true,
      strict: true,
    });
    // Ours: a flag with one value is not given twice.
    if (values.name && values.name.length > 1) return "refused";
    const texts = Object.entries(values).map(([name, all]) => [
      name,
      [...all].map((value) => (value === true ? "" : value)),
    ]);
    return { values: Object.fromEntries(texts), positionals };
  } catch {
    return "refused";
  }
}
