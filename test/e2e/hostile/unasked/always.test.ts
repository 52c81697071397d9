import { expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

const PROGRAMS = [
  "git worktree",
  "git clone",
  "git commit",
  "git push",
  "make",
  "sort",
  "go run",
  "python3",
  "tsc",
];
const OUTSIDE = [
  ...["git worktree add ../elsewhere/wt", "git clone . ../elsewhere/c", "git push ../elsewhere/r main"],
  ...["make -C ../elsewhere", "make -C /tmp x", "make -C link", "for d in ../elsewhere; do make -C $d; done"],
  ...["cd ../elsewhere && make", "cd ..; make", "(cd /tmp; make)", "cd link && git commit -am x"],
  ...["sort -o ../elsewhere/x a.txt", "sort --output=../elsewhere/x a.txt", "go run /tmp/x.go"],
  ...["python3 ../elsewhere/x.py", "x=..; python3 $x/elsewhere/x.py", "python3 ~/x.py", "python3 link/x.py"],
  ...["tsc --outDir ../elsewhere", "tsc --outDir=../elsewhere", "tsc -p/tmp"],
];
const INSIDE = [
  ...[
    "make -C src -n",
    "cd src && make -n",
    "git commit -m 'fix /etc/x and ../y'",
    "git push no-remote main",
  ],
  ...["sort -o sorted.txt README.md", 'for f in src/*.py; do python3 "$f"; done', "git worktree add wt"],
];

test.each([
  ["a mode", ["--ask-mode", "outside"], INSIDE],
  ["a rule", ["--ask", "Bash"], INSIDE.filter((line) => !/^(?:cd|for) /.test(line))],
])("an always with a star covers nothing outside the project: %s", async (_which, flags, inside) => {
  await using machine = new Machine({ git: true });
  machine.config({ allow_always: PROGRAMS.map((program) => `Bash(${program} *)`) });
  machine.write("src/a.py", "\n");
  symlinkSync(machine.elsewhere, join(machine.project, "link"));
  const lines = [...OUTSIDE, ...inside];
  const model = await machine.play({ go: [bash(...lines), says("done")] });
  await verdict(machine, ["go", ...flags]);
  const results = toolResults(model.last);
  expect(lines.filter((_, i) => /needs a person's yes/.test(results[i] ?? ""))).toEqual(OUTSIDE);
});
