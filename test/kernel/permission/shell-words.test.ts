import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseCommandLine, readsFile, writesFile } from "../../../src/kernel/permission/shell-words.ts";

/** Commands as text, with what makes them special behind. `~` before a word: the shell expands it. */
function shown(line: string): string[] | null {
  const commands = parseCommandLine(line);
  if (commands === null) return null;
  return commands.map((command) =>
    [
      command.words.map((word) => (word.dynamic ? `~${word.text}` : word.text)).join("|"),
      command.assigns && "assigns",
      writesFile(command) && "writes",
      readsFile(command) && "reads",
    ]
      .filter((part) => part !== false)
      .join(" +"),
  );
}

describe("a line is cut into the simple commands a shell would run", () => {
  const cases: [string, string[]][] = [
    ["", []],
    ["  \t ", []],
    ["git log", ["git|log"]],
    ["git   log\t-p", ["git|log|-p"]],
    ["git log; rm -rf /", ["git|log", "rm|-rf|/"]],
    ["git log;rm -rf /", ["git|log", "rm|-rf|/"]],
    ["git\nrm", ["git", "rm"]],
    ["git a && rm b || cp c | mv d & ln e", ["git|a", "rm|b", "cp|c", "mv|d", "ln|e"]],
    ["git a&&rm b", ["git|a", "rm|b"]],
    ["git a |& rm b", ["git|a", "rm|b"]],
    ["git log &", ["git|log"]],
    ["(git a; rm b)", ["git|a", "rm|b"]],
    ["( (git a) )", ["git|a"]],
    ["{ git a; rm b; }", ["git|a", "rm|b"]],
    ["{ git a; } && (rm b)", ["git|a", "rm|b"]],
    ["! rm x", ["rm|x"]],
    ["! ! rm x", ["rm|x"]],
    ["git log # ; rm -rf /", ["git|log"]],
    ["# only a comment", []],
    ["git a # x\nrm b", ["git|a", "rm|b"]],
    ["git log#; rm", ["git|log#", "rm"]],
    ["git log\\\n# ; rm x", ["git|log#", "rm|x"]],
    ["time git log", ["time|git|log"]],
    ["git } {", ["git|}|{"]],
  ];
  for (const [line, commands] of cases) {
    test(`${JSON.stringify(line)} is ${JSON.stringify(commands)}`, () =>
      expect(shown(line)).toEqual(commands));
  }
});

describe("quotes are removed as a shell does", () => {
  const cases: [string, string[]][] = [
    ["git 'a;b'", ["git|a;b"]],
    ['git "a && b"', ["git|a && b"]],
    ["git 'a\nb'", ["git|a\nb"]],
    ["git a'b'\"c\"d", ["git|abcd"]],
    ["git ''", ["git|"]],
    ["g'i't log", ["git|log"]],
    ["\\rm x", ["rm|x"]],
    ["git a\\;b", ["git|a;b"]],
    ["git a\\\nb", ["git|ab"]],
    ['git "a\\"b\\$c\\`d\\\\e\\f"', ['git|a"b$c`d\\e\\f']],
    ["git '$(rm x)'", ["git|$(rm x)"]],
    ["git '`rm x`'", ["git|`rm x`"]],
    ["'if' x", ["if|x"]],
    ["git '#'", ["git|#"]],
    ["git ünïcödé 世界", ["git|ünïcödé|世界"]],
    // A no-break space is a letter to a shell.
    ["git\u00a0log", ["git\u00a0log"]],
    ["git $ a", ["git|$|a"]],
    ["git a$", ["git|a$"]],
  ];
  for (const [line, commands] of cases) {
    test(`${JSON.stringify(line)} is ${JSON.stringify(commands)}`, () =>
      expect(shown(line)).toEqual(commands));
  }
});

describe("a word that the shell expands is marked", () => {
  const cases: [string, string[]][] = [
    ["git $x", ["git|~"]],
    [`git \${x}`, ["git|~"]],
    ["git a$x", ["git|~a"]],
    ['git "$x"', ["git|~"]],
    ["$x log", ["~|log"]],
    ["git $? $# $$ $! $1", ["git|~|~|~|~|~"]],
    ["git *.ts", ["git|~*.ts"]],
    ["git '*.ts'", ["git|*.ts"]],
    ["git a?b", ["git|~a?b"]],
    ["git {a,b}", ["git|~{a,b}"]],
    ["git ~/x a=~/x HEAD~1", ["git|~~/x|~a=~/x|HEAD~1"]],
    ["[ -f x ]", ["[|-f|x|]"]],
  ];
  for (const [line, commands] of cases) {
    test(`${JSON.stringify(line)} is ${JSON.stringify(commands)}`, () =>
      expect(shown(line)).toEqual(commands));
  }
});

describe("redirections and assignments are recorded", () => {
  const cases: [string, string[]][] = [
    ["git log > out", ["git|log +writes"]],
    ["git log>out", ["git|log +writes"]],
    ["git log >> out", ["git|log +writes"]],
    ["git log >| out", ["git|log +writes"]],
    ["git log 2> out", ["git|log +writes"]],
    ["git log <> out", ["git|log +writes"]],
    ["git log >& out", ["git|log +writes"]],
    ["> out", [" +writes"]],
    ["(git log) > out", ["git|log", " +writes"]],
    ["{ git log; } > out", ["git|log", " +writes"]],
    ["git log > $x", ["git|log +writes"]],
    ['git log > "/dev/null"', ["git|log +writes"]],
    ["git log > /dev/nullx", ["git|log +writes"]],
    ["git log &> out", ["git|log +writes"]],
    ["git log &>> out", ["git|log +writes"]],
    ["git log &>/dev/null 2>&1; rm x", ["git|log", "rm|x"]],
    ["git log > /dev/null", ["git|log"]],
    ["git log 2>/dev/null", ["git|log"]],
    ["git log 2>&1", ["git|log"]],
    ["git log >&2", ["git|log"]],
    ["git log 2>&-", ["git|log"]],
    ["git log 2>&1 | cat", ["git|log", "cat"]],
    ["git log 22>&1", ["git|log"]],
    ["git log '2'>out", ["git|log|2 +writes"]],
    ["git apply < patch", ["git|apply +reads"]],
    ["git log < /dev/null", ["git|log"]],
    ["FOO=x git log", ["git|log +assigns"]],
    ["FOO=x BAR= git log", ["git|log +assigns"]],
    ["FOO+=x git log", ["git|log +assigns"]],
    ["a[1]=x git log", ["git|log +assigns"]],
    ["FOO=x", [" +assigns"]],
    ["git FOO=x", ["git|FOO=x"]],
    ["'FOO=x' git", ["FOO=x|git"]],
    ["1FOO=x git", ["1FOO=x|git"]],
  ];
  for (const [line, commands] of cases) {
    test(`${JSON.stringify(line)} is ${JSON.stringify(commands)}`, () =>
      expect(shown(line)).toEqual(commands));
  }
});

describe("the commands of substitutions, loops, conditions and here-documents are found", () => {
  const cases: [string, string[]][] = [
    ["git $(rm x)", ["git|~", "rm|x"]],
    ['git "a$(rm x; ls)"', ["git|~a", "rm|x", "ls"]],
    ["git $\\\n(rm x)", ["git|~", "rm|x"]],
    ['git `rm x` "`ls`"', ["git|~|~", "rm|x", "ls"]],
    ["git $(echo $(rm x))", ["git|~", "echo|~", "rm|x"]],
    ["x=$(rm x)", [" +assigns", "rm|x"]],
    ["git log > $(rm x)", ["git|log +writes", "rm|x"]],
    ["git $((1+1))", ["git|~"]],
    [`git "\${x:-y}" \${#x} \${f%.ts}`, ["git|~|~|~"]],
    ["git <<EOF\na $x\nEOF\nrm x", ["git", "rm|x"]],
    ["git <<'EOF' > out\n$(rm x)\nEOF", ["git +writes"]],
    ["git <<-EOF\n\tEOF", ["git"]],
    ["git <<< x", ["git"]],
    ["if git log; then rm x; elif ls; then :; else mv a b; fi", ["git|log", "rm|x", "ls", ":", "mv|a|b"]],
    ["while true; do rm x; done", ["true", "rm|x"]],
    ["until git log; do rm x; done | cat", ["git|log", "rm|x", "cat"]],
    ["for f in *; do rm $f; done", [" +assigns", "rm|~"]],
    ["for f in $(ls) b\ndo\nrm $f\ndone > out", [" +assigns", "ls", "rm|~", " +writes"]],
    ["[[ -f x ]] && rm x", ["[[|-f|x|]]", "rm|x"]],
  ];
  for (const [line, commands] of cases) {
    test(`${JSON.stringify(line)} is ${JSON.stringify(commands)}`, () =>
      expect(shown(line)).toEqual(commands));
  }
});

describe("a line that could hide a command is refused", () => {
  const lines = [
    "git <(rm x)",
    "git >(rm x)",
    "git log > >(rm x)",
    "git $[1+1]",
    `git \${x:-$(rm y)}`,
    `git \${x@P}`,
    `git \${!x}`,
    "git $'a\\nb'",
    'git $"a"',
    "git <<EOF\n$(rm x)\nEOF",
    "git <<EOF\na",
    "git <<EOF\na\\\nEOF",
    "git $(git <<EOF)\nEOF",
    "git $(rm x",
    "git `rm x",
    "git $((x))",
    "for f in a; rm x",
    "for ((;;)); do rm x; done",
    "if git log; rm x; fi",
    "while git log; rm x; done",
    "done",
    "for f in a; do rm x; fi",
    "git < /dev/tcp/example.com/80",
    "git > /dev/udp/example.com/80",
    "case x in x) rm y;; esac",
    "select x in a; do rm x; done",
    "function git { rm x; }",
    "git() { rm x; }; git log",
    "git () { rm x; }",
    "coproc rm x",
    "[[ -f x && -f y ]]",
    "((x = 1))",
    "(\\\n(x = 1))",
    // To bash one command, to dash two.
    "git &>/dev/null rm x",
    "git &\\\n>> out rm x",
    "&>/dev/null rm x",
    // bash expands the name once more.
    "git log >&'$(rm x)'",
    "git log >& '`rm x`'",
    "git log >&$x",
    "a=(rm x)",
    "git @(a|b)",
    "git 'unbalanced",
    'git "unbalanced',
    "git trailing\\",
    "(git log",
    "git log)",
    "{ git log; ",
    "git log; }",
    "(git log; }",
    "(git log) rm x",
    "git log ;; rm x",
    "git >",
    "git > ; rm x",
    "git \0 log",
    "git log\r\nrm x",
    "git \u001b[2K log",
    `git ${"x".repeat(100_001)}`,
    `${"(".repeat(200)}git${")".repeat(200)}`,
    // The parser takes seconds for thousands of substitutions in each other, and then all of the stack.
    `git ${"$(git ".repeat(200)}${")".repeat(200)}`,
    `git ${"$(git ".repeat(14_000)}${")".repeat(14_000)}`,
  ];
  for (const line of lines) {
    test(JSON.stringify(line.slice(0, 60)), () => expect(shown(line)).toBeNull());
  }
});

describe("a real shell never runs more than the parser found", () => {
  /** `mark` is a function that tells of each of its runs. */
  const lines = [
    "mark 1; mark 2",
    "mark 1 & mark 2",
    "mark 1 || mark 2 && mark 3",
    "mark 1\nmark 2",
    "( mark 1; { mark 2; } )",
    "! mark 1",
    "mark 1 # mark 2",
    "mark 1\\\n# ; mark 2",
    "mark 'a; mark 2'",
    'mark "a\\"; mark 2; \\""',
    "mark a\\;mark 2",
    "mark 1 &>/dev/null mark 2",
    "mark 1 2>&1 | mark 2",
    "'mark' 1; \"mark\" 2; m\\ark 3",
    "mark {a,b}; mark $x; mark *",
    "x=1; mark 2",
    ...randomLines(8_000),
  ];
  const understood = lines.filter((line) => parseCommandLine(line) !== null);

  for (const shell of ["sh", "bash"]) {
    test(`${shell} agrees on ${lines.length} lines`, async () => {
      const ran = await marksRun(shell, understood);
      expect(understood.length).toBeGreaterThan(500);
      expect(ran.filter((marks) => marks > 0).length).toBeGreaterThan(200);
      // A loop runs its commands several times, and braces may run a substitution several times.
      const mayRepeat = (line: string): boolean => /\bdo\b|\{/.test(line) && marksSeen(line) > 0;
      const missed = understood.filter((line, i) => (ran[i] ?? 0) > marksSeen(line) && !mayRepeat(line));
      expect(missed).toEqual([]);
    });
  }
});

/** Commands that are `mark`, or that may be because the shell expands their name. */
function marksSeen(line: string): number {
  const names = (parseCommandLine(line) ?? []).map((command) => command.words[0]);
  return names.filter((name) => name?.text === "mark" || name?.dynamic).length;
}

/** How often each line called `mark`: every line by itself, in a folder that is removed again. */
async function marksRun(shell: string, lines: string[]): Promise<number[]> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-shell-words-"));
  try {
    const script = join(dir, "script");
    const inside = join(dir, "inside");
    mkdirSync(inside);
    const quoted = lines.map((line) => `'${line.replaceAll("'", "'\\''")}'`);
    const runs = quoted.map((line, i) => `( n=${i}; eval ${line}; wait ) </dev/null >/dev/null 2>&1`);
    writeFileSync(script, `exec 9>&1\nmark() { echo $n >&9; }\n${runs.join("\n")}\necho end >&9\n`);
    const run = Bun.spawn([shell, script], {
      cwd: inside,
      stdout: "pipe",
      stderr: "ignore",
      stdin: "ignore",
    });
    // Its end is the end of the last background job too: each of them holds it open.
    const printed = (await new Response(run.stdout).text()).split("\n");
    expect(await run.exited).toBe(0);
    expect(printed).toContain("end");
    const ran = lines.map(() => 0);
    for (const number of printed)
      if (/^\d+$/.test(number)) ran[Number(number)] = (ran[Number(number)] ?? 0) + 1;
    return ran;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** Pieces of shell syntax in random order, the same ones each time. */
function randomLines(count: number): string[] {
  const pieces = [
    ...[
      "mark ",
      "mark ",
      "mark",
      " mark ",
      " a ",
      "b",
      " ",
      " ",
      "\n",
      "; ",
      ";",
      " & ",
      "&",
      " && ",
      " | ",
      " || ",
    ],
    ...[
      "( ",
      " )",
      "{ ",
      "; }",
      "! ",
      "#",
      " # ",
      "'",
      "'",
      '"',
      '"',
      "\\",
      "\\\n",
      "$x",
      "$",
      "x=1 ",
      "x=",
      "[1]=",
    ],
    ...["$(", "$(mark 1)", "`", "$((1))", "\n", "<<E\n", "E\n", "[[ ", " ]]", '"$(', ')"'],
    ...["if ", "; then ", "; else ", "; fi", "for x in a b; do ", "while ", "; do ", "; done", "done", "fi"],
    ...[
      ">/dev/null ",
      " 2>/dev/null",
      "&>/dev/null ",
      "2>&1",
      "</dev/null",
      ">",
      "<",
      "*",
      "~",
      "{a,b}",
      "`",
    ],
  ];
  let state = 20_261_120;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length: count }, () =>
    Array.from({ length: 2 + random(7) }, () => pieces[random(pieces.length)]).join(""),
  );
}
