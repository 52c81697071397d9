import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  CommandPattern,
  coversLine,
  deniesLine,
  readCommandLine,
  whyUncoverable,
} from "../../../src/kernel/permission/command-pattern.ts";
import { soak } from "../../support/soak.ts";

const covers = (pattern: string, line: string): boolean =>
  coversLine([new CommandPattern(pattern)], readCommandLine(line));
const denies = (pattern: string, line: string): boolean =>
  deniesLine(new CommandPattern(pattern), readCommandLine(line));

describe("no pattern covers a builtin that may evaluate its arguments", () => {
  const lines = [
    "printf -v 'a[$(id)]' x",
    "printf -v'a[$(id)]' x",
    'printf "$x" y',
    "printf * y",
    "printf '12%n' PATH",
    "printf -- '%-5n' PATH",
    "\\printf -v x y",
    "test -v 'a[$(id)]'",
    "test -R x",
    "test 'a[$(id)]' -eq 0",
    'test "$x" y',
    'test ! "$x" y',
    "test $x = y",
    'test "$@" = y',
    "test a -a -v x",
    "[ -v x ]",
    "[ x -lt y ]",
    '[ x "$op" y ]',
    ...["read x", "let x", "declare x=1", "typeset x", "local x", "export x=1", "readonly x", "unset x"],
    ...["mapfile x", "readarray x", "getopts a x", "wait -p x", "alias a=b", "unalias a", "shopt -s x"],
    ...[
      "hash -p /bin/sh git",
      "jobs -x id",
      "set -x",
      "set -k",
      "enable -f x y",
      "bind -x x",
      "complete -C id",
    ],
    ...[
      "compgen -C id",
      "trap id EXIT",
      "exec id",
      "source x",
      ". x",
      "eval id",
      "command id",
      "builtin printf",
    ],
    ...["fc -s", "history -s id", "ulimit -S -R unlimited", "umask 0", "caller x", "bg", "fg %1", "help x"],
    ...["exit 'a[$(id)]'", "return x", "shift x", "break x", "continue x", "wait x", "command -p id"],
    ...[
      "PS4=x echo x",
      "BASH_ENV=x git status",
      "IFS=x",
      "PATH=. echo x",
      "LD_PRELOAD=x git status",
      "X=1 echo",
    ],
    ...["echo x {PATH}>/dev/null", "echo x {a['$(id)']}</dev/null", "echo x {PATH}\\\n>/dev/null"],
    ...["$x y", "ech? y", "{echo,y} z", "a[b['$(id)']]=1 echo x", "coproc id", "[[ -v x ]]", "(( x ))"],
  ];
  test.each(lines)("%p", (line) => {
    const name = /^\\?(\S+)/.exec(line)?.[1] ?? "";
    for (const pattern of ["*", "* *", `${name} *`, line.replaceAll("\\\n", ""), "echo *", "git status*"]) {
      expect([pattern, covers(pattern, line)]).toEqual([pattern, false]);
    }
    expect(whyUncoverable(readCommandLine(line))).toStartWith("No pattern covers ");
  });
});

describe("commands that evaluate nothing are covered", () => {
  const lines = [
    "echo -n \"$x\" $y * 'a[$(id)]'",
    "printf '%s\\n' \"$x\" *",
    "printf -- '-- %d %%\\t' 5",
    "printf '%5.2f nn\\n' 1",
    "test -f 'a b'",
    'test -z "$x"',
    'test "$x" = "$y"',
    "test ! -d x",
    'test ! "$x" != y',
    "test x",
    "[ -n x ]",
    "[ a -nt b ]",
    ...["true", "false", ": $x", "pwd", "cd $x", "pushd x", "popd", "dirs", "type git", "kill -9 $x", "wait"],
    ...["command -v git", "command -V $x", "exit 1", "return 0", "wait 12", "/usr/bin/printf -v x", "env x"],
    "echo x 2>&1 >/dev/null",
  ];
  test.each(lines)("%p", (line) => {
    const name = /^\S+/.exec(line)?.[0] ?? "";
    expect(covers(`${name} *`, line)).toBe(true);
    expect(whyUncoverable(readCommandLine(line))).toBeNull();
  });
});

describe("a deny pattern", () => {
  const PUSH = "git push*";
  test.each([
    "git push",
    "git -C . push",
    'git -C "$dir" push -f',
    "git -c a.b=c push",
    "git --git-dir .git --work-tree . push",
    "git --git-dir=.git --no-pager -p push",
    "/usr/bin/git --namespace x push",
    "sudo git -C . push",
    "git -C $dir push",
    "git -c alias.p=push p",
    "git --config-env alias.p=X p",
    "git --config-env=alias.p=X p",
    'git -c "$x" p',
    "git -C . $x",
    "alias g=git; g push",
    "hash -p /usr/bin/git g; g push",
    "printf -v 'a[$(git push)]' x",
    "[ -v 'a[`git push`]' ]",
    "x='a[$(git push)]'; let x",
    "x='a[$(git push)]'\ndeclare x",
    "PS4='$(git push)'; set -x; true",
    "export PS4='$(git push)'; set -x; true",
    "read PS4 < f; set -x; true",
    "read -r -a x PS4 < f; set -x",
    "mapfile PS4 < f; set -x",
    "printf -vPS4 %s x; set -x",
    "x=PS4; read $x < f; set -x",
    'x=P; read $x"S4" < f',
    "declare -n x=PS4; read x < f; set -x",
    "for PS4 in a b; do set -x; done",
    "if x; then git push; fi",
    "for f in a; do git push; done",
    "echo $(git push)",
    "cat <<E\nE\ngit push",
    "PROMPT_COMMAND=x true",
    "BASH_ENV=x npm test",
    "jobs -x git push",
    "echo x {a['$(git push)']}>/dev/null",
    "a['$(git push)']=1",
    "x='a[$(git push)]'; b[x]=1",
    ...["RANDOM", "SRANDOM", "OPTIND", "HISTCMD"].map((name) => `${name}='a[$(git push)]'`),
    "(\\\n(x='$(git push)'))",
    "echo >&'$(git push)'",
    "git &>/dev/null push",
    "git -C . &>>log push",
  ])("matches %p as a denied command", (line) => expect(denies(PUSH, line)).toBe(true));

  test.each([
    "git -C . log",
    'git -C "$dir" log push',
    "git --no-pager -c core.pager=cat diff",
    "git log -- push",
    "export CI=1; npm test",
    "export PATH=bin:$PATH && npm test",
    "set -euo pipefail; npm test",
    "CI=1 npm test",
    "NODE_ENV=x npm test; export NODE_ENV=y",
    "for f in a b; do echo $(git log) $f; done",
    "if git diff --quiet; then echo push; fi",
    "cat <<'E'\n$(git push)\nE",
    "npm test &>/dev/null",
    "npm test &>log 2>&1 && git -C . log >&2",
    "[ $? -eq 0 ] && echo ok",
    '[ "$a" -gt 3 ] && echo ok',
    "read x < file; echo $x",
    "unset x; umask 022; ulimit -n",
    "echo '$(git push)'",
    "export A=1; awk '{ print $(NF) }' x",
    "hash -r; enable -n test",
  ])("does not match %p", (line) => expect(denies(PUSH, line)).toBe(false));
});

/** Names of commands in the lines below: each of them has a pattern that covers it with any arguments. */
const COMMANDS = [
  ...": [ alias bg bind break builtin caller cd chdir command compgen complete compopt continue declare".split(
    " ",
  ),
  ...". dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill".split(
    " ",
  ),
  ...["let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly"],
  ...["return", "set", "shift", "shopt", "source", "suspend", "test", "times", "trap", "true", "type"],
  ...["typeset", "ulimit", "umask", "unalias", "unset", "wait", "git", "cat"],
];

describe("a real shell runs nothing that a covered line does not name", () => {
  const patterns = COMMANDS.map((name) => new CommandPattern(`${name} *`));
  const isCovered = (line: string): boolean => coversLine(patterns, readCommandLine(line));
  const lines = [
    "printf '0123456789%n' PATH; git status",
    "echo x {PATH}>/dev/null; git status",
    ...everyBuiltinWithEveryPayload().filter((_, i) => i % soak(3, 1) === 0),
    ...randomLines(soak(3_000, 10_000)),
  ];
  const covered = lines.filter(isCovered);

  for (const shell of ["bash", "dash"].filter((name) => Bun.which(name))) {
    test(`${shell}, ${covered.length} of ${lines.length} lines`, async () => {
      expect(covered.length).toBeGreaterThan(1_000);
      const ran = await marked(shell, [...covered, "printf -v 'a[$(mark)]' x; cat x; . ./s"]);
      // The last is covered by none, and shows that a mark would be seen.
      expect(ran.pop()).toBe(true);
      expect(covered.filter((_, i) => ran[i])).toEqual([]);
    });
  }
});

/** Whether each line ran `mark`, as a function, as a sourced file, or as a program in a folder with a number for a name. */
async function marked(shell: string, lines: string[]): Promise<boolean[]> {
  const dir = mkdtempSync(join(tmpdir(), "rnix-shell-evaluation-"));
  try {
    const file = (path: string, text: string): void => {
      mkdirSync(join(dir, path, ".."), { recursive: true });
      writeFileSync(join(dir, path), text);
      chmodSync(join(dir, path), 0o755);
    };
    file("bin/git", "#!/bin/sh\n");
    file("in/s", "mark\n");
    for (let fd = 0; fd < 20; fd++) file(`in/${fd}/git`, "#!/bin/sh\necho $n >&9\n");
    // Names that a glob makes of files.
    file("in/-va[$(mark)]", "");
    const run = (line: string, i: number): string =>
      `( n=${i}; export n; eval '${line.replaceAll("'", "'\\''")}' ) </dev/null >/dev/null 2>&1`;
    file("script", `exec 9>&1\nmark() { echo $n >&9; }\n${lines.map(run).join("\n")}\necho end >&9\n`);
    const child = Bun.spawn([shell, join(dir, "script")], {
      cwd: join(dir, "in"),
      env: { PATH: `${join(dir, "bin")}:${process.env.PATH ?? ""}`, x: "a[$(mark)]" },
      stdout: "pipe",
      stderr: "ignore",
      stdin: "ignore",
    });
    const printed = new Set((await new Response(child.stdout).text()).split("\n"));
    await child.exited;
    expect(printed).toContain("end");
    return lines.map((_, i) => printed.has(String(i)));
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const PAYLOADS = [
  "'a[$(mark)]'",
  '"$x"',
  "$x",
  "x",
  "'a[$x]'",
  "'$(mark)'",
  "'`mark`'",
  "./s",
  "mark",
  "*",
  "PATH",
];
const OPTIONS = [
  ...[
    "",
    "-v",
    "-p",
    "-x",
    "-C",
    "-f",
    "-c",
    "-A",
    "-n",
    "-a",
    "-eq",
    "-lt",
    "-R",
    "-o",
    "--",
    "!",
    "=",
    "+1",
  ],
  ...["-t", "-s", "-u", "-d", "-i", "-e", "-F", "-E", "-N", "'%n'", "'12%n'", "'%s'", "'%d'", "'%b'", "]"],
];

function everyBuiltinWithEveryPayload(): string[] {
  return COMMANDS.flatMap((name) =>
    OPTIONS.flatMap((option) =>
      PAYLOADS.flatMap((payload) => {
        const end = name === "[" ? " ]" : "";
        return [`${name} ${option} ${payload}${end}`, `${name} ${payload} ${option} 1${end}`];
      }),
    ),
  ).filter((line) => !/^(?:exit|logout|suspend|kill) /.test(line));
}

/** Pieces of evaluation in random order, the same ones each time. */
function randomLines(count: number): string[] {
  const pieces = [
    ...[
      "printf ",
      "test ",
      "[ ",
      " ]",
      "echo ",
      "echo ",
      "cd ",
      "type ",
      "command ",
      "git status ",
      "true ",
      "wait ",
    ],
    ...["declare ", "read ", "export ", "let ", "unset ", "builtin ", "\\printf ", "'test' ", "! ", "time "],
    ...PAYLOADS.map((payload) => ` ${payload} `),
    ...OPTIONS.map((option) => ` ${option} `),
    ...["; ", "; ", " | ", " && ", " || ", "\n", " & ", "( ", " )", "{ ", "; }", "\\\n", "#", "'", '"'],
    ...["{PATH}>/dev/null ", "{a['$(mark)']}>/dev/null ", "{a[$x]}<&0 ", "PATH=. ", "x=", "a['$(mark)']=1 "],
    ...[
      "$_",
      '"$_"',
      "$?",
      "$((x))",
      `\${x}`,
      `\${a[x]}`,
      "a[$x]",
      "a[b['$(mark)']]=1 ",
      "-v'a[$(mark)]' ",
      "%n",
    ],
    ..."2>&1 </dev/null <s".split(" ").map((text) => ` ${text} `),
  ];
  let state = 20_261_122;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length: count }, () =>
    Array.from({ length: 2 + random(7) }, () => pieces[random(pieces.length)]).join(""),
  );
}
