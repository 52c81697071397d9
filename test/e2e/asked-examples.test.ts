import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const FILE = join(import.meta.dir, "../../docs/permissions.md");
const BETWEEN = /(<!-- asked-examples -->\n)[\s\S]*?(<!-- \/asked-examples -->)/;

type Call = [tool: string, input: Record<string, unknown>];
/** What the public documentation of Claude Code and opencode says of such a call; "" where it says nothing. */
type Example = [shown: string, call: Call, claude: "" | "no" | "yes", opencode: "no" | "yes"];

const bash = (command: string, claude: Example[2], opencode: Example[3] = "no"): Example => [
  command,
  ["Bash", { command }],
  claude,
  opencode,
];

const EXAMPLES: Example[] = [
  ["Read a.txt", ["Read", { path: "a.txt" }], "no", "no"],
  ["Grep for a word", ["Grep", { pattern: "a", path: "." }], "no", "no"],
  ["Write new.txt", ["Write", { path: "new.txt", content: "a" }], "yes", "no"],
  ["Edit a.txt", ["Edit", { path: "a.txt", old_string: "b", new_string: "c" }], "yes", "no"],
  ["Read /etc/hosts", ["Read", { path: "/etc/hosts" }], "yes", "yes"],
  ["Write /tmp/x", ["Write", { path: "/tmp/x", content: "a" }], "yes", "yes"],
  ["TaskCreate", ["TaskCreate", { subject: "a" }], "", "no"],
  ["MemoryCommit", ["MemoryCommit", { action: "add", content: "Tests run with make check." }], "", "no"],
  ["Plan", ["Plan", { steps: ["a"] }], "", "no"],
  bash("ls -la && git status", ""),
  bash("cat a.txt | grep b | wc -l", ""),
  bash("git log --oneline -5", ""),
  bash("git diff HEAD~1 --stat", ""),
  bash("find . -name '*.ts' | xargs wc -l", ""),
  bash("for i in 1 2; do echo $i; done", ""),
  bash("if [ -f a.txt ]; then head -3 a.txt; fi", ""),
  bash('for f in *.txt; do sort -u "$f"; done', ""),
  bash("LC_ALL=C sort a.txt > sorted.txt", "yes"),
  bash("echo a > x.txt", "yes"),
  bash("echo $(git rev-parse --show-toplevel)", ""),
  bash("sed -n '1,20p' a.txt", ""),
  bash("cat /etc/hosts", "yes", "yes"),
  bash("cd .. && ls", "yes", "yes"),
  bash("sed -i s/a/b/ a.txt", "yes"),
  bash("sort --output=b.txt a.txt", "yes"),
  bash("mkdir -p src && touch src/a.ts", "yes"),
  bash("rm -rf build", "yes"),
  bash("npm test", "yes"),
  bash("python3 script.py", "yes"),
  bash("git commit -am change", "yes"),
  bash("git push origin main", "yes"),
  bash("curl -s https://example.com | jq .a", "yes"),
  bash("PATH=.:$PATH ls", ""),
  bash('eval "$cmd"', "yes"),
];

/** With UPDATE_DOCS=1 the table is written instead of compared. */
test("the table of examples in docs/permissions.md says what the program asks in the mode outside", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a.txt", "b\na\n");
  const book = { go: [calls(...EXAMPLES.map(([, call]) => call)), says("done")] };
  const model = await machine.play(book);
  await verdict(machine, ["go", "--ask-mode", "outside"]);
  const results = toolResults(model.last);
  const left = results.filter((result) => result.startsWith("Error ") && !result.includes("(asked because "));
  expect(left).toEqual([]);
  const rows = EXAMPLES.map(([shown, , claude, opencode], i) => {
    const why = /\(asked because (.*?)\), and there is no person to ask/s.exec(results[i] ?? "")?.[1];
    const code = `\`${shown.replaceAll("|", "\\|")}\``;
    return `| ${code} | ${why === undefined ? "no" : `yes, because ${why.replace(dirname(machine.project), "/home/me")}`} | ${claude} | ${opencode} |`;
  });
  const table = ["| call | asked | Claude Code | opencode |", "|---|---|---|---|", ...rows, ""].join("\n");
  const document = readFileSync(FILE, "utf8");
  expect(document).toMatch(BETWEEN);
  const expected = document.replace(BETWEEN, (_all, head: string, foot: string) => `${head}${table}${foot}`);
  if (process.env.UPDATE_DOCS) writeFileSync(FILE, expected);
  else expect(document, "UPDATE_DOCS=1 writes the table").toBe(expected);
});
