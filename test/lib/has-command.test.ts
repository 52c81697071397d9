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
const PREPARED = [
  "X=1",
  "X=1 Y='a b'",
  ">f",
  "> f 2>&1",
  "X=1 >f",
  "f() { false; }",
  "f() ( false )",
  "function f { npm test; }",
  "function f() { npm test; }",
  "alias x=false",
  "export CI=1",
  "set -e",
  "cd sub",
  "cd sub && set -e\nX=1",
  "{ X=1; }",
  "eval",
  "exec >log",
  "''",
  "if X=1; then Y=2; fi",
];
const MORE = [...PREPARED, "()", "\\\n", " \\\n  # x", "# a \\\n# b", "; # nothing"];
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
  "$TEST",
  "X=$(npm test)",
  "X=`npm test`",
  "$(npm test)",
  "cd sub && npm test",
  "CI=1 npm test",
  ">log npm test",
  "2>/dev/null true",
  "f() { false; }; f",
  "if test -f a; then X=1; fi",
  "for x in $FILES; do npm test; done",
  "cat <<'END'\nX=1\nEND",
  "./check",
  '"my check"',
  "sh -c 'npm test'",
  "[ -f a ]",
  "! X=1 false",
  "while read -r x; do :; done <f",
];
test.each(SOME)("%j runs something", (text) => {
  expect(hasCommand(text)).toBe(true);
});

const VARIABLES = { TEST: "npm test", BLANK: " ", PREFIX: "" };
const EMPTY = [
  "$UNSET",
  "$BLANK",
  "$\u007bUNSET}",
  '"$UNSET"',
  "$UNSET $BLANK",
  "$1 $@",
  "cd sub && $UNSET",
  "$UNSET >f",
  'eval "$UNSET"',
  'sh -c "$UNSET"',
  "bash -ec $UNSET",
  "command $UNSET",
  "X=; $X",
  "X=$UNSET; $X",
  "X=$UNSET\n$X",
  "for x in $UNSET; do npm test $x; done",
  "if $UNSET; then $UNSET; fi",
  "( $UNSET )",
];
test.each(EMPTY)("%j runs nothing where its variables are empty", (text) => {
  expect(hasCommand(text, VARIABLES)).toBe(false);
});

const FILLED = [
  "$TEST",
  "$\u007bTEST}",
  "$PREFIX npm test",
  "X=true; $X",
  "X=$TEST; $X",
  "sh -c '$UNSET true'",
  "$UNSET$TEST",
  "for x in $TEST; do $x; done",
  "for x in $UNSET; do false; done; npm test",
  "$\u007bUNSET:-npm test}",
  "$UNSET.sh",
];
test.each(FILLED)("%j runs something where its variables are filled", (text) => {
  expect(hasCommand(text, VARIABLES)).toBe(true);
});
