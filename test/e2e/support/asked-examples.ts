/** The calls of the table in docs/permissions.md, which Rnix and its peers are tried with. */

type Call = [tool: string, input: Record<string, string | string[]>];
type Example = [shown: string, call: Call];

const bash = (command: string): Example => [command, ["Bash", { command }]];

export const EXAMPLES: Example[] = [
  ["Read a.txt", ["Read", { path: "a.txt" }]],
  ["Grep for a word", ["Grep", { pattern: "a", path: "." }]],
  ["Write new.txt", ["Write", { path: "new.txt", content: "a" }]],
  ["Edit a.txt", ["Edit", { path: "a.txt", old_string: "b", new_string: "c" }]],
  ["Read /etc/hosts", ["Read", { path: "/etc/hosts" }]],
  ["Write /tmp/x", ["Write", { path: "/tmp/x", content: "a" }]],
  ["TaskCreate", ["TaskCreate", { subject: "a" }]],
  ["MemoryCommit", ["MemoryCommit", { action: "add", content: "Tests run with make check." }]],
  ["Plan", ["Plan", { steps: ["a"] }]],
  bash("ls -la && git status"),
  bash("cat a.txt | grep b | wc -l"),
  bash("git log --oneline -5"),
  bash("git diff HEAD~1 --stat"),
  bash("find . -name '*.ts' | xargs wc -l"),
  bash("for i in 1 2; do echo $i; done"),
  bash("if [ -f a.txt ]; then head -3 a.txt; fi"),
  bash('for f in *.txt; do sort -u "$f"; done'),
  bash("LC_ALL=C sort a.txt > sorted.txt"),
  bash("echo a > x.txt"),
  bash("echo $(git rev-parse --show-toplevel)"),
  bash("sed -n '1,20p' a.txt"),
  bash("cat /etc/hosts"),
  bash("cd .. && ls"),
  bash("sed -i s/a/b/ a.txt"),
  bash("sort --output=b.txt a.txt"),
  bash("mkdir -p src && touch src/a.ts"),
  bash("rm -rf build"),
  bash("npm test"),
  bash("python3 script.py"),
  bash("git commit -am change"),
  bash("git push origin main"),
  bash("curl -s https://example.com | jq .a"),
  bash("PATH=.:$PATH ls"),
  bash('eval "$cmd"'),
];
