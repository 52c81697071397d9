import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

test("a run that may only print and test can't run another command by a builtin; the result says why", async () => {
  await using machine = new Machine();
  const payload = "'a[$(touch taken)]'";
  const lines = [
    `printf -v ${payload} x`,
    `printf -v${payload} x`,
    `test -v ${payload}`,
    `[ -v ${payload} ]`,
    `echo ${payload}; printf "-v$_" x`,
    `echo x {a['$(touch taken)']}>/dev/null`,
    "echo x {PATH}>/dev/null; git status",
    "printf '0123456789%n' PATH; git status",
    `PS4='$(touch taken)' echo; set -x; echo`,
  ];
  const plain = ["printf '%s\\n' plain", "test -d . && echo there", "[ ! -e taken ] && git --version"];
  const book = {
    "try it": [
      calls(
        ...[...lines, ...plain].map((command): [string, Record<string, unknown>] => ["Bash", { command }]),
      ),
      says("done"),
    ],
  };
  const model = await machine.play(book);
  for (const fd of [10, 11, 12]) machine.write(`${fd}/git`, "#!/bin/sh\ntouch taken\n");
  const allowed = ["printf", "test", "[", "echo", "git"].flatMap((name) => ["--allow", `Bash(${name} *)`]);
  const { receipt } = await verdict(machine, ["try it", ...allowed]);
  expect(receipt.exit_code).toBe(0);
  const results = toolResults(model.last);
  for (const [i, line] of lines.entries()) {
    expect([line, results[i]]).toEqual([
      line,
      expect.stringMatching(/No pattern covers (?:a command that|this line)/),
    ]);
  }
  expect(results.slice(lines.length)).toEqual(["plain", "there", expect.stringContaining("git version")]);
  expect(machine.has("taken")).toBe(false);
});

test("a denied git push stays denied with git's own options before it", async () => {
  await using machine = new Machine({ git: true });
  machine.git("init", "--quiet", "--bare", "../elsewhere/remote");
  machine.git("remote", "add", "origin", "../elsewhere/remote");
  const lines = [
    "git push origin main",
    "git -C . push origin main",
    "git --no-pager -c a.b=c push origin main",
    "git &>/dev/null push origin main",
    "echo >&'$(git push origin main)'",
    "a['$(git push origin main)']=1",
    "RANDOM='a[$(git push origin main)]'",
    "(\\\n(x='$(git push origin main)'))",
  ];
  const book = {
    "try it": [
      calls(
        ...[...lines, "git -C . status"].map((command): [string, Record<string, unknown>] => [
          "Bash",
          { command },
        ]),
      ),
      says("done"),
    ],
  };
  const model = await machine.play(book);
  await verdict(machine, ["try it", "--deny", "Bash(git push*)"]);
  const results = toolResults(model.last);
  for (const result of results.slice(0, lines.length))
    expect(result).toContain("The deny rule Bash(git push*) forbids it.");
  expect(results.at(-1)).toContain("On branch main");
  expect(machine.git("ls-remote", "origin")).toBe("");
});
