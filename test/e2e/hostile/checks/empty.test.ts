import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { says } from "../../support/scenes.ts";
import { refusal, verdict } from "../../support/verdict.ts";

const NOTHING = [" ", "\n\t\n", "# npm test", ";", "# a\n  # b\n", "\\\n"];
/** The shell ends each of these with 0. */
const PREPARING = ["X=1", ">f", "f() { false; }", "alias x=false", "cd . && set -e"];
const EMPTY = [
  "$UNSET",
  "eval $UNSET",
  "for t in $UNSET; do false $t; done",
  "X=$UNSET; $X",
  "$UNSET || true",
  "`$UNSET`",
  "$($UNSET)",
  "X=$($UNSET)",
  "X=1 `$UNSET`",
  "$( )",
  "ulimit -c 0",
  "$UNSET | cat",
  "$UNSET 2>&1 | tee log",
  "cd . && $UNSET |& sort | tee log",
  "$UNSET; $UNSET | cat",
];
/** Its result is not known. */
const IN_BACKGROUND = [
  ...["false &", "false & wait", "(false) &", "(false &)", "{ false; } &", "false && true &", "false &> log"],
  ...["cd . && false & cd .", "false & false &", "if true; then false; fi &", "nohup false > log 2>&1 &"],
];
const HIDDEN = ["if $UNSET; then :; fi", "bash -c '$UNSET'", "sh -ec '$UNSET || true'"];
const OTHERWISE = ["{UNSET:-}", "{@}", "{UNSET:+npm test}", "UNSET || exit 1", "UNSET; env CI=1 $UNSET"].map(
  (text) => `$${text}`,
);

test("a check that runs nothing is refused before the run spends anything, alone and beside others", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "do it": [says("done")] });
  for (const check of [...NOTHING, ...PREPARING, ...EMPTY, ...HIDDEN, ...OTHERWISE, ...IN_BACKGROUND]) {
    const { receipt, stderr } = await refusal(machine, ["do it", "--check", "true", "--check", check]);
    expect(receipt.exit_code).toBe(64);
    expect(stderr).toContain("check: expected a command");
  }
  for (const check of ["", "# x"])
    expect((await machine.run(["spawn", "do it", "--check", check, "--no-daemon"])).code).toBe(64);
  expect(model.requests).toEqual([]);
});

test("a check that the user declares as a command is run", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] });
  for (const check of [
    "true",
    ":",
    "# why\ntrue",
    `$${"{UNSET:-true}"}`,
    `$${"{HOME:+true}"}`,
    "env CI=1 true",
    "bash -c 'true'",
    "$UNSET test -d .",
    "false & true",
    "true & wait $!",
    "true & P=$!; wait $P",
    "if false & then true; fi",
    "test '&' = '&'",
    "true 2>&1 && true >&2",
  ])
    expect((await verdict(machine, ["do it", "--check", check])).receipt).toMatchObject({ exit_code: 0 });
});

test("an empty check in agent.yaml is named with file, line and column; in a replay script with its file", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] });
  for (const check of ['""', '" "', '"# npm test"', '";"']) {
    machine.write(
      "agents/careful/agent.yaml",
      `name: careful\ndescription: It checks.\nchecks:\n  - "true"\n  - ${check}\n`,
    );
    machine.write("agents/careful/prompt.md", "Be careful.\n");
    const { receipt } = await refusal(machine, ["do it", "--agent", "careful", "--trust"]);
    expect(receipt).toMatchObject({ exit_code: 64, error: { code: "INVALID" } });
    expect(receipt.error?.message).toMatch(/careful\/agent\.yaml:5:5: .*expected a command/);
  }
  const script = machine.write(
    "script.yaml",
    'intent: go\nchecks: ["# nothing"]\nresponses:\n  - text: done\n',
  );
  const replayed = await machine.run(["replay", script]);
  expect(replayed.code).not.toBe(0);
  expect(replayed.stderr).toContain("expected a command");
});
