import { expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

type Calls = [string, Record<string, unknown>][];

/** The results of these commands in this mode, where nobody answers. */
async function resultsOf(machine: Machine, commands: readonly string[], mode = "outside"): Promise<string[]> {
  const book = {
    go: [calls(...commands.map((command): Calls[number] => ["Bash", { command }])), says("done")],
  };
  const model = await machine.play(book);
  await verdict(machine, ["go", "--ask-mode", mode]);
  return toolResults(model.last);
}

/** A program that leaves a file when it runs. */
function trap(machine: Machine): string {
  machine.write("trap.sh", '#!/bin/sh\ntouch "$(dirname "$0")/ran"\n');
  const file = join(machine.project, "trap.sh");
  chmodSync(file, 0o755);
  return file;
}

test("git that is not asked for runs neither the monitor nor a hook of the repository", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.git("config", "core.fsmonitor", program);
  machine.write("hooks/post-index-change", `#!/bin/sh\n${program}\n`);
  chmodSync(join(machine.project, "hooks/post-index-change"), 0o755);
  machine.git("config", "core.hooksPath", "hooks");
  if (machine.has("ran")) machine.remove("ran");
  const commands = ["git status", "git -C . status --short", "cd hooks && git diff", "ls; git ls-files -m"];
  for (const result of await resultsOf(machine, commands))
    expect(result).not.toContain("needs a person's yes");
  expect(machine.has("ran")).toBe(false);
});

test("git in a bare repository of the project is asked for, beside other commands, too", async () => {
  await using machine = new Machine({ git: true });
  machine.git("init", "--quiet", "--bare", "evil.git");
  machine.git("-C", "evil.git", "config", "core.fsmonitor", trap(machine));
  machine.git("-C", "evil.git", "config", "core.bare", "false");
  machine.git("-C", "evil.git", "config", "core.worktree", "..");
  if (machine.has("ran")) machine.remove("ran");
  const commands = ["git -C evil.git status", "cd evil.git && git status", "cd evil.git/refs && git log; ls"];
  for (const result of await resultsOf(machine, commands))
    expect(result).toContain("(asked because `git` would run what a bare repository names)");
  expect(machine.has("ran")).toBe(false);
});

test("no option that writes or runs something goes unasked, however it is written", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.write("a.txt", "b\na\n");
  const commands = [
    ...["git reflog expire --all", "git config edit", "git config --global a.b c"],
    ...["git grep --op=./trap.sh a", "git grep -nO'./trap.sh' a", "git grep -O./trap.sh a"],
    ...["git diff --outp=ran", "git log --output=ran", "git -c core.pager=./trap.sh -p log", "git log --ext"],
    ...["sort --comp=./trap.sh -S1 a.txt", "sort --o=ran a.txt", "sort -bo ran a.txt", "sort -oran a.txt"],
    ...[
      "xxd a.txt ran",
      "xxd a.txt -p",
      "xxd -r a.txt ran",
      "uniq a.txt ran",
      "date --se=2000-01-01",
      "date 01010101",
    ],
    ...[
      "tree -o ran",
      "rg --pre=./trap.sh a",
      "rg --pr ./trap.sh a",
      "file -C -m ran",
      "diff -l a.txt a.txt",
    ],
    ...[
      "find . -fprint ran",
      "find . -exec ./trap.sh {} +",
      "find . -delete -name x",
      "xargs ./trap.sh < a.txt",
    ],
    ...["sed -n 'w ran' a.txt", "sed 's/a/b/w ran' a.txt", "sed '1e ./trap.sh' a.txt", "sed -i s/a/b/ a.txt"],
    ...["sed 's/[/]/;s/w ran/p' a.txt", "sed '/[/p;s/]/w ran/p' a.txt", "sed 's|[^|]|;s|w ran|g' a.txt"],
    ...[
      "awk '{print > \"ran\"}' a.txt",
      "awk 'BEGIN{system(\"./trap.sh\")}'",
      "awk '{\"./trap.sh\" | getline}' a.txt",
    ],
    ...["env ./trap.sh", "command ./trap.sh", "time ./trap.sh", "timeout 5 ./trap.sh", "nohup ./trap.sh"],
    ...[
      "PATH=. ls",
      "LD_PRELOAD=./x ls",
      "GIT_EXTERNAL_DIFF=./trap.sh git diff",
      "RIPGREP_CONFIG_PATH=x rg a",
    ],
    ...[
      "x=$(./trap.sh)",
      "echo `./trap.sh`",
      "for x in $(./trap.sh); do :; done",
      "if ./trap.sh; then ls; fi",
    ],
    ...[
      "for PATH in .; do ls; done",
      "cat <<E\n$(./trap.sh)\nE",
      "echo > .git/hooks/x",
      "ls > ../ran",
      "ls | tee ran",
    ],
    ...[
      "base64 -o ran a.txt",
      "make",
      "node < trap.js",
      "python3",
      "git branch ran",
      "ps -o environ",
      "git stash",
      "git tag ran",
    ],
    program,
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
  expect(machine.has("ran")).toBe(false);
});

test("a file outside the project is read by a command only as Read would read it", async () => {
  await using machine = new Machine({ git: true });
  machine.write(join(machine.elsewhere, "outside.txt"), "the secret");
  mkdirSync(join(machine.elsewhere, "deep"));
  symlinkSync(join(machine.elsewhere, "deep"), join(machine.project, "link"));
  symlinkSync(join(machine.elsewhere, "deep"), join(machine.project, "..."));
  const commands = [
    ...["cat link/./../outside.txt", "cat .../../outside.txt", "cd -P link/.. && cat outside.txt"],
    ...["set -P; cd link/..; cat outside.txt", "cd -P ./link/./.. && head outside.txt"],
    ...["cat link/../outside.txt", "cd link && cat ../outside.txt", "cd link; cat ../outside.txt"],
    ...["awk 'BEGIN{ARGV[1]=\"/etc/passwd\";ARGC=2} {print}'", "cat src/../link/../outside.txt"],
    ...[
      "cat ../elsewhere/outside.txt",
      "cd .. && cat elsewhere/outside.txt",
      "head -1 < ../elsewhere/outside.txt",
      "cat $HOME/x",
      "cat ~/x",
    ],
    ...[
      "grep -f ../elsewhere/outside.txt a",
      "grep --fil=../elsewhere/outside.txt a",
      "git diff --no-index a ../elsewhere/outside.txt",
    ],
    ...[
      "git diff a ../elsewhere/outside.txt",
      "git grep --no-index the ..",
      "diff a ../elsewhere/outside.txt",
      "for f in ../*; do cat $f; done",
    ],
    ...[
      "echo ../elsewhere/outside.txt | xargs cat",
      "cat $(echo ../elsewhere/outside.txt)",
      "x=; cat $x/etc/hosts",
      "x=.; cat $x./elsewhere/outside.txt",
    ],
    ...[
      "find .. -name '*.txt'",
      "ls ..",
      "cat {../elsewhere/outside.txt,a}",
      "wc --files0-from=../elsewhere/outside.txt",
      "cat .*/elsewhere/outside.txt",
    ],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
});

test("a folder that may not have been entered is not where the next command runs", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a/b/c.txt", "x");
  const outside = join(machine.elsewhere, "ran");
  const commands = [
    "true || cd a/b && echo x > ../elsewhere/ran",
    "true ||\n cd a/b && echo x > ../elsewhere/ran",
    "(true) || cd a/b && echo x > ../elsewhere/ran",
    "echo | cd a/b && echo x > ../elsewhere/ran",
    "{ true; } | cd a/b && echo x > ../elsewhere/ran",
    "! cd a/missing && echo x > ../elsewhere/ran",
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
  expect(existsSync(outside)).toBe(false);
});

test("a value that the shell splits is neither an option nor a command that goes unasked", async () => {
  await using machine = new Machine({ git: true });
  trap(machine);
  machine.write("a.txt", "a\n");
  const commands = [
    "x='1 -o ran'; sort -k $x a.txt",
    "x='a -delete'; find . -name a$x",
    "x=' -delete'; find . -name a$x",
    "x=' ./trap.sh'; timeout 5$x",
    "x='1 ./trap.sh'; ls | xargs -n $x cat",
    "x=' --output=ran'; git stash show stash$x",
    "find . -name trap.sh | xargs -I cat cat a.txt",
    "find . -name trap.sh | xargs -I p sed -n p a.txt",
    "for x in '1 -o ran'; do sort -k $x a.txt; done",
    "for f in *; do sort a$f; done",
    ...["sort -k{1,} -k -oran a.txt", "head -n{1,} -n /etc/hosts", "git -C [a-z]* status"],
    ...["git log --max-parents --output=ran", "git blame --abbrev --contents=/etc/hosts a.txt"],
    ...["x=../elsewhere/; find . -name a.txt -exec cat $x{} +", "strings @a.txt"],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
  expect(machine.has("ran")).toBe(false);
});

test("a listed name that a shell splits into another path is asked for", async () => {
  await using machine = new Machine({ git: true });
  machine.write("a ../x.txt", "x");
  machine.write("'.'./x.txt", "x");
  const lists = ["find . -type f", "git ls-files -o", "rg --files"];
  const takers = ["xargs cat", 'while read f; do cat "$f"; done'];
  const commands = lists.flatMap((list) => takers.map((taker) => `${list} | ${taker}`));
  const results = await resultsOf(machine, [...commands, "for f in $(find . -type f); do cat $f; done"]);
  expect(results.filter((result) => !result.includes("(asked because "))).toEqual([]);
});

test("lines that name all that they read need no question", async () => {
  await using machine = new Machine({ git: true });
  machine.write("src/a.ts", "a\n");
  const commands = [
    ...[
      "find . -name '*.ts' | xargs -I{} head -n 1 {}",
      "ls src | xargs -I {} wc -l src/{}",
      "find src -type f -exec cat {} +",
    ],
    ...[
      "grep -rn a --include=*.ts src",
      "grep -rln a src | sort -u | head -n 5 | xargs wc -l",
      "cat src/*.ts",
    ],
    ...[
      'for f in src/*.ts; do sort -u "$f"; done',
      "for n in 1 2; do head -n $n src/a.ts; done",
      "jq .a < src/a.ts",
    ],
    ...[
      "cd src && cat a.ts && cd .. && ls",
      "git ls-files | xargs cat",
      "find . -print0 -type f | xargs -0 grep a",
    ],
    ...["echo *.md src/*", "cd src && echo *", 'for f in *; do echo "$f"; done', "[[ a == /etc/* ]]"],
    ...[
      "head -n 5 README.md; tail -n +2 README.md; head -c 1k README.md",
      "wc -lc < README.md; nl -ba README.md",
    ],
    ...["od -An -tx1 README.md; hexdump -C README.md", "stat -c '%s %n' README.md; du -sh . && df -h ."],
    ...["md5sum README.md | cut -d ' ' -f 1", "column -t -s , README.md; cat -A README.md"],
    ...["wc -l *", "sort -u *.md", "md5sum *.md", 'for f in *.md; do wc -l "$f"; done', "ls | xargs wc -l"],
    ...["git config --get user.email", "git config --local --list", "git config --get remote.origin.url"],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => results[i]?.includes("(asked because "))).toEqual([]);
});

test("a name that would be an option is asked for where a pattern or a list names it", async () => {
  await using machine = new Machine({ git: true });
  machine.write(join(machine.elsewhere, "outside.txt"), "the secret\n");
  machine.write("src/a b -c", "a\n");
  machine.write("x /etc/passwd", "a\n");
  const made = [
    ": > --files0-from=names",
    "sort {,x}-oran",
    "wc -l {,-}-x",
    "uniq *",
    "ls src | xargs md5sum",
  ];
  const results = await resultsOf(machine, made);
  machine.write("--files0-from=names", "");
  machine.write("names", `${join(machine.elsewhere, "outside.txt")}\0`);
  const commands = [
    "wc *",
    "ls | xargs wc",
    'for f in *; do wc "$f"; done',
    "sort *",
    "git ls-files -o | xargs du",
  ];
  results.push(...(await resultsOf(machine, commands)));
  expect([...made, ...commands].filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
});

test("xargs reads names only of a list that names nothing else", async () => {
  await using machine = new Machine({ git: true });
  const file = join(machine.elsewhere, "outside.txt");
  machine.write(file, "the secret");
  machine.write("names.txt", `${file}\n`);
  machine.write("a.txt", "a\n");
  machine.write("b.txt", "b\n");
  const commands = [
    `ls -l --time-style=+${file} | xargs cat`,
    `grep -l --labe=${file} a - < a.txt | xargs cat`,
    `ls | grep -A1 --group-separator=${file} x | xargs cat`,
    ...[
      "ls | head -n 9 names.txt | xargs cat",
      "ls | sort names.txt | xargs cat",
      "ls | grep . names.txt | xargs cat",
    ],
    ...["find . | grep --onl 'xt' | xargs cat", "find . | xargs -d x cat", "ls | head -5c | xargs cat"],
    `x='-l --time-style=+${file}'; ls $x | xargs cat`,
    ...[`jq -n 'import "${file}" as $d; $d'`, "jq -n -f a.txt", `x='include "a"; .'; jq -n "$x"`],
    ...[
      "find -L . -name a.txt",
      "ls -a | xargs grep -r the",
      "ls | xargs -I% cat %/../../elsewhere/outside.txt",
    ],
    "find . -name a.txt -exec cat {}/../../elsewhere/outside.txt \\;",
    ...[`x='a ${file}'; grep $x`, `x='1 ${file}'; head -n $x`, "x='.?/elsewhere/outside.txt'; cat $x"],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
});

test("a link that a pattern or a list names is read only as Read would read it", async () => {
  await using machine = new Machine({ git: true });
  machine.write(join(machine.elsewhere, "outside.txt"), "the secret");
  machine.write("deep/a.txt", "a\n");
  symlinkSync(join(machine.elsewhere, "outside.txt"), join(machine.project, "deep/link.txt"));
  const commands = [
    ...["cat deep/l*", "cat */l*", "for f in deep/*; do cat $f; done", "find . -name 'l*' | xargs cat"],
    ...["find . -name 'l*' -exec cat {} +", "ls deep | xargs cat", "cat $(find . -type l)"],
    ...[
      "f=deep/link.txt; cat $f",
      "f=link; cat deep/$f.txt",
      "for f in link.txt; do cat deep/$f; done",
      "grep -R secret .",
      "diff -r deep deep2",
      "for f in $(ls deep); do cat deep/$f; done",
      "cat {deep,x}/l*",
    ],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
});

test("a link is found whatever its name, and however a pattern or a list names it", async () => {
  await using machine = new Machine({ git: true });
  const outside = join(machine.elsewhere, "outside.txt");
  machine.write(outside, "the secret");
  const folders = ["brackets", "class", "accent", "bytes", "folder"];
  for (const name of folders) mkdirSync(join(machine.project, name));
  symlinkSync(outside, join(machine.project, "brackets/[l]ink"));
  symlinkSync(outside, join(machine.project, "class/link"));
  symlinkSync(outside, join(machine.project, "accent/é.md"));
  symlinkSync(machine.elsewhere, join(machine.project, "folder/link"));
  Bun.spawnSync(["sh", "-c", `ln -s ${outside} "bytes/$(printf '\\377.c')"`], { cwd: machine.project });
  const commands = [
    ...[
      "cat brackets/[l]ink",
      "cat class/[[:alpha:]]ink",
      "cat class/l[[.i.]]nk",
      "LC_ALL=C; cat accent/??.md",
    ],
    ...["cat bytes/*", "find bytes -name '*.c' | xargs cat", "grep -R secret bytes", "diff -r bytes class"],
    ...['for f in bytes/*; do cat "$f"; done', "grep --deref secret class", "grep --d secret class"],
    ...["find class -name '[[:alpha:]]ink' | xargs cat", "find class -exec cat {} + -type f"],
    ...["find class -print -name zz | xargs cat", "find class -printf -name -exec cat {} +"],
    ...["find class -iname -name -exec cat {} +", "x=,l; find class -type f$x -exec cat {} +"],
    ...["ls -RL folder", "ls --deref -R folder", "du -aL folder", "tree -l folder"],
  ];
  const results = await resultsOf(machine, commands);
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
  const known = [
    "find class -maxdepth 1 -type f | xargs grep a",
    "find class -mtime 1 -name '*.a' -exec cat {} +",
  ];
  for (const result of await resultsOf(machine, known)) expect(result).not.toContain("(asked because ");
});

test("a link takes no edit of the project's files out of the project", async () => {
  await using machine = new Machine({ git: true });
  machine.write(join(machine.elsewhere, "outside.txt"), "the secret");
  machine.write("elsewhere/outside.txt", "of the project");
  machine.write("a.txt", "a\n");
  mkdirSync(join(machine.project, "deep"));
  mkdirSync(join(machine.elsewhere, "deep"));
  for (const name of ["link", "..."])
    symlinkSync(join(machine.elsewhere, "deep"), join(machine.project, name));
  // One folder up, they lead out of the project.
  symlinkSync("../elsewhere", join(machine.project, "deep/folder"));
  symlinkSync("../elsewhere/outside.txt", join(machine.project, "deep/file"));
  for (const folder of ["into", "into/tree"]) mkdirSync(join(machine.project, folder));
  for (const file of ["into/a.txt", "into/tree/x"])
    symlinkSync(join(machine.elsewhere, "outside.txt"), join(machine.project, file));
  machine.write("tree/x", "x\n");
  const commands = [
    ...["touch link/../ran", "touch link/./../ran", "mkdir .../../ran", "rm -f link/../outside.txt"],
    ...[
      "mv deep/folder up && cp a.txt up/ran",
      "cp -a deep/folder up; touch up/ran",
      "mv deep up; rm -f up/x",
    ],
    ...["cp -P deep/file up && cp a.txt up", "cp -a deep/. src; mkdir src/folder/ran"],
    "mv deep/file up && sed -i s/the/x/ up",
    ...["cp a.txt into", "cp a.txt tree/x into/", "cp -r tree into", "cp -rf tree/. into/tree"],
  ];
  const results = await resultsOf(machine, commands, "edits");
  expect(commands.filter((_, i) => !results[i]?.includes("(asked because "))).toEqual([]);
  expect(existsSync(join(machine.elsewhere, "ran"))).toBe(false);
  expect(machine.read(join(machine.elsewhere, "outside.txt"))).toBe("the secret");
  const known = ["cp a.txt deep/b.txt && mv deep/b.txt c.txt", "mkdir -p new/x; touch new/x/y", "rm c.txt"];
  for (const result of await resultsOf(machine, known, "edits"))
    expect(result).not.toContain("needs a person's yes");
});

test("git is asked for where the repository's configuration names a program or another folder", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.write("a.txt", "a\n");
  machine.write(".gitattributes", "*.txt diff=d filter=f\n");
  machine.git("add", ".");
  machine.git("commit", "--quiet", "-m", "a");
  machine.write("a.txt", "b\n");
  const commands = [
    "git status",
    "git diff",
    "git log -p",
    "git describe --dirty --always",
    "cd . && git show; ls",
  ];
  const settings = [
    ...[`diff.external ${program}`, `diff.d.textconv ${program}`, `diff.d.command ${program}`],
    ...[
      `filter.f.clean ${program}`,
      `filter.f.process ${program}`,
      // Of the program that Git LFS has in the place of a filter.
      `lfs.extension.x.clean ${program}`,
      `lfs.customtransfer.x.path ${program}`,
      "core.worktree /",
      "include.path ../evil.config",
    ],
    ...["includeIf.gitdir:/.path x", "format.pretty %GG"],
  ];
  for (const setting of settings) {
    const [key = "", value = ""] = setting.split(" ");
    machine.git("config", key, value);
    const results = await resultsOf(machine, commands);
    expect([setting, commands.filter((_, i) => !results[i]?.includes("(asked because "))]).toEqual([
      setting,
      [],
    ]);
    machine.git("config", "--unset", key);
  }
  expect(machine.has("ran")).toBe(false);
});

test("git is quiet with variables, beside allowed programs and in background units", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.write("a.txt", "a\n");
  machine.git("config", "core.fsmonitor", program);
  if (machine.has("ran")) machine.remove("ran");
  await resultsOf(machine, ["f=a.txt; git status $f", "for f in a.txt; do git diff $f; done"]);
  expect(machine.has("ran")).toBe(false);
  const book = {
    go: [
      calls(["Bash", { command: "git status", run_in_background: true }], ["Bash", { command: "sleep 1" }]),
      says("done"),
    ],
  };
  await machine.play(book);
  await verdict(machine, ["go", "--ask-mode", "outside"]);
  expect(machine.has("ran")).toBe(false);
});

test("git is asked for where a repository leads to another one, and not in a linked work tree", async () => {
  await using machine = new Machine({ git: true });
  const secret = join(machine.elsewhere, "secret");
  machine.git("init", "--quiet", secret);
  machine.write(join(secret, "pw.txt"), "hunter2\n");
  const author = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
  for (const dir of [secret, machine.project]) {
    machine.git("-C", dir, "add", ".");
    machine.git("-C", dir, ...author, "commit", "--quiet", "--allow-empty", "-m", "a");
  }
  const other = join(secret, ".git");
  const fresh = (dir: string): string => {
    machine.git("init", "--quiet", dir);
    return join(machine.project, dir, ".git");
  };
  machine.write("by-file/.git", `gitdir: ${other}\n`);
  mkdirSync(join(machine.project, "by-link"));
  symlinkSync(other, join(machine.project, "by-link/.git"));
  machine.write(join(fresh("by-common"), "commondir"), `${other}\n`);
  machine.write(join(fresh("by-alternates"), "objects/info/alternates"), `${other}/objects\n`);
  symlinkSync(join(secret, "pw.txt"), join(fresh("by-refs"), "packed-refs"));
  symlinkSync(join(other, "refs/heads"), join(fresh("by-folder"), "refs/tags/x"));
  machine.git("-C", "by-refs", "config", "blame.ignoreRevsFile", "no-revs");
  fresh("by-revs");
  machine.git("-C", "by-revs", "config", "blame.ignoreRevsFile", join(secret, "pw.txt"));
  const names = ["file", "link", "common", "alternates", "refs", "folder", "revs"].map(
    (name) => `by-${name}`,
  );
  const results = await resultsOf(
    machine,
    names.map((name) => `cd ${name} && git log --all -p`),
  );
  expect(names.filter((_, i) => !results[i]?.includes("(asked because `git` would follow "))).toEqual([]);
  expect(results.join()).not.toContain("hunter2");
  machine.git("worktree", "add", "--quiet", "tree");
  machine.git("-C", "tree", "config", "blame.ignoreRevsFile", ".no-revs");
  for (const result of await resultsOf(machine, ["cd tree && git log --oneline", "git -C tree status"]))
    expect(result).not.toContain("needs a person's yes");
});

test("git is asked for where a submodule's configuration names a program", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.git("init", "--quiet", "sub");
  machine.write("sub/a.txt", "a\n");
  machine.git("-C", "sub", "add", ".");
  machine.git("-C", "sub", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "-m", "a");
  machine.git("add", "sub");
  const commands = ["git status", "git diff"];
  for (const result of await resultsOf(machine, commands)) expect(result).not.toContain("(asked because ");
  machine.git("-C", "sub", "config", "filter.f.clean", program);
  machine.write("sub/.gitattributes", "*.txt filter=f\n");
  for (const result of await resultsOf(machine, commands))
    expect(result).toContain("(asked because `git` would follow `filter.*.clean` of the repository)");
  expect(machine.has("ran")).toBe(false);
});

test("git is not asked for in a repository with submodules of git's, unless one leads elsewhere", async () => {
  await using machine = new Machine({ git: true });
  const as = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"];
  machine.git("init", "--quiet", "origin");
  machine.git("-C", "origin", ...as, "commit", "--quiet", "--allow-empty", "-m", "a");
  machine.git(...as, "submodule", "--quiet", "add", "./origin", "libs/sub");
  const commands = ["git status", "git -C libs/sub log --oneline", "cd libs/sub && git diff"];
  for (const result of await resultsOf(machine, commands)) expect(result).not.toContain("(asked because ");
  const at = ["config", "--file", ".git/modules/libs/sub/config", "core.worktree"];
  for (const elsewhere of ["../../../..", "/", "../../../../libs"]) {
    machine.git(...at, elsewhere);
    for (const result of await resultsOf(machine, commands))
      expect(result).toContain("(asked because `git` would follow `core.worktree` of the repository)");
  }
  machine.git("config", "--file", ".git/modules/libs/sub/config", "--unset", "core.worktree");
  machine.git("config", "--file", ".git/modules/libs/sub/config", "user.worktree", "../../../../libs/sub");
  for (const result of await resultsOf(machine, commands))
    expect(result).toContain("(asked because `git` would follow a .git that leads elsewhere");
});

test("beside an allowed program, git is asked for where the repository names a monitor", async () => {
  await using machine = new Machine({ git: true });
  const program = trap(machine);
  machine.write("a.txt", "a\n");
  machine.git("config", "core.fsmonitor", program);
  if (machine.has("ran")) machine.remove("ran");
  const book = { go: [calls(["Bash", { command: "git status; mkdir x" }]), says("done")] };
  const model = await machine.play(book);
  await verdict(machine, ["go", "--ask-mode", "edits"]);
  expect(toolResults(model.last)[0]).toContain("`git` would follow `core.fsmonitor` of the repository");
  expect(machine.has("ran")).toBe(false);
});
