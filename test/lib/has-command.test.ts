import { expect, test } from "bun:test";
import { hasCommand } from "../../src/lib/has-command.ts";

const NONE = [
  "",
  " ",
  "\t",
  "\n",
  " \n\t\n ",
  "\r\n",
  "# comment",
  "#",
  "#true",
  "  # a\n# b\n\n\t#c",
  ";",
  " ; ;",
  "&",
  "|",
];
const MORE = ["()", "\\\n", " \\\n  # x", "# a \\\n# b", "; # nothing"];
test.each([...NONE, ...MORE])("%j runs nothing", (text) => {
  expect(hasCommand(text)).toBe(false);
});

const SOME = [
  "true",
  ":",
  "# first\ntrue",
  "# a \\\ntrue",
  "a#b",
  "echo # x",
  "; true",
  "(true)",
  "{ :; }",
  "! false",
  "'#'",
];
test.each(SOME)("%j runs something", (text) => {
  expect(hasCommand(text)).toBe(true);
});
