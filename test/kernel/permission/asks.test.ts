import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { realTarget } from "../../../src/kernel/permission/call-view.ts";
import { type Call, type Facts, Permissions } from "../../../src/kernel/permission/permissions.ts";
import type { AskMode } from "../../../src/lib/ask-modes.ts";
import { callOf } from "./call-of.ts";

const PROJECT = "/home/u/project";
const FACTS: Facts = {
  tools: [
    { name: "Read", subject: "path", path: "/dev/fs", readOnly: true },
    { name: "Write", subject: "path", path: "/dev/fs", outside: true },
    { name: "Grep", subject: "path", path: "/dev/fs", readOnly: true, filters: true },
    { name: "Bash", subject: "command", path: "/dev/shell", outside: true },
    { name: "WebFetch", subject: "url", path: "/dev/web", readOnly: true, outside: true },
    { name: "Complete", path: "/dev/kernel/complete" },
    { name: "mcp__x__get", path: "/mnt/mcp/x", readOnly: true },
    { name: "mcp__x__put", path: "/mnt/mcp/x", outside: true },
  ],
  devices: ["/dev/fs", "/dev/shell", "/dev/web", "/dev/kernel/complete", "/mnt/mcp/x"],
  projectDir: PROJECT,
  cwd: PROJECT,
  realPath: (path) =>
    path.replace(`${PROJECT}/link`, `${PROJECT}/.github`).replace(`${PROJECT}/out`, "/data"),
  isThere: () => false,
};

const call = (text: string): Call => callOf(FACTS, text);

type Verdict = "allow" | "ask" | "deny";

function verdictOf(permissions: Permissions, text: string): Verdict {
  if (permissions.refusal(call(text)) !== null) return "deny";
  return permissions.asks(call(text)) === null ? "allow" : "ask";
}

interface Rules {
  allow?: string[];
  deny?: string[];
  ask?: string[];
  mode?: AskMode;
  always?: string[];
  project?: string[];
}

function of({
  allow = ["*"],
  deny = [],
  ask = [],
  mode = "off",
  always = [],
  project = [],
}: Rules): Permissions {
  return Permissions.of({ ...FACTS, allow, deny })
    .asking(ask, mode)
    .allowAlways(always, "run")
    .allowAlways(project, "project");
}

function grid(title: string, rules: Rules, wanted: Partial<Record<Verdict, string[]>>): void {
  describe(title, () => {
    for (const [verdict, texts] of Object.entries(wanted))
      for (const text of texts)
        test(`${verdict}: ${text}`, () => expect<string>(verdictOf(of(rules), text)).toBe(verdict));
  });
}

describe("deny wins over ask, and ask over allow", () => {
  grid(
    "the same tool in all lists",
    { allow: ["Bash"], ask: ["Bash"], deny: ["Bash"] },
    { deny: ["Bash(ls)"] },
  );
  grid("allowed and asked", { allow: ["Bash"], ask: ["Bash"] }, { ask: ["Bash(ls)"], deny: ["Write(a)"] });
  grid(
    "an ask rule allows nothing by itself",
    { allow: ["Read"], ask: ["Bash", "Write"] },
    { allow: ["Read(a)"], deny: ["Bash(ls)", "Write(a)"] },
  );
  grid(
    "everything",
    { ask: ["*"] },
    { ask: ["Read(a)", "Bash(ls)", "Complete", "/dev/fs/a", "mcp__x__get"] },
  );
  grid(
    "patterns of each",
    { allow: ["Bash"], ask: ["Bash(git *)"], deny: ["Bash(git push *)"] },
    { allow: ["Bash(ls)"], ask: ["Bash(git log)", "Bash(ls && git log)"], deny: ["Bash(git push origin)"] },
  );
  grid(
    "a device",
    { ask: ["/dev/shell"] },
    { ask: ["Bash(ls)", "/dev/shell"], allow: ["Read(a)", "/dev/fs/a"] },
  );
  grid(
    "MCP tools by a star",
    { ask: ["mcp__x__*"] },
    { ask: ["mcp__x__get", "mcp__x__put"], allow: ["Read(a)"] },
  );
});

test("no mode but plan asks for the very line of a check, where no rule and no taint asks; a child is asked", () => {
  const rights = ({ ask, mode = "outside" }: Rules): Permissions =>
    of({ ask, mode }).withAsks({ approved: ["npm test"] });
  const lines = ["npm test", "npm test -- x", "cd a && npm test", "A=1 npm test"].map(
    (line) => `Bash(${line})`,
  );
  for (const mode of ["outside", "edits"] as const)
    expect(lines.map((line) => verdictOf(rights({ mode }), line))).toEqual(["allow", "ask", "ask", "ask"]);
  expect(verdictOf(rights({ mode: "plan" }), "Bash(npm test)")).toBe("ask");
  expect(verdictOf(rights({ ask: ["Bash"] }), "Bash(npm test)")).toBe("ask");
  expect(verdictOf(rights({}).child(["*"], []), "Bash(npm test)")).toBe("ask");
  expect(verdictOf(Permissions.from(rights({}).record(), FACTS), "Bash(npm test)")).toBe("allow");
  const tainted = rights({}).tainted({ origin: "web", source: "WebFetch", policy: "ask" });
  expect(verdictOf(tainted, "Bash(npm test)")).toBe("ask");
});

describe("a command line", () => {
  grid(
    "is asked for when one of its commands may match",
    { ask: ["Bash(rm *)"] },
    {
      ask: [
        "Bash(rm a)",
        "Bash(ls; rm a)",
        "Bash(ls | xargs rm)",
        "Bash(/bin/rm a)",
        "Bash(env X=1 rm a)",
        "Bash(sh -c 'rm a')",
        "Bash($CMD a)",
        "Bash(echo $(rm a))",
      ],
      allow: ["Bash(ls)", "Bash(echo rm)", "Bash(git status)"],
    },
  );
  grid(
    "that a person has allowed is not asked for, alone or beside others",
    { ask: ["Bash(git *)"], always: ["Bash(git push *)"] },
    {
      allow: ["Bash(git push origin)", "Bash(npm test && git push origin)"],
      ask: [
        "Bash(git pull)",
        "Bash(git push && git pull)",
        "Bash(git push $(git pull))",
        "Bash(FOO=1 git push)",
      ],
    },
  );
  grid(
    "that the whole tool covers",
    { ask: ["Bash"], project: ["Bash"] },
    { allow: ["Bash(rm -rf $X `y`)"] },
  );
  grid(
    "the allowed rule never lifts a deny",
    { ask: ["Bash"], deny: ["Bash(rm *)"], always: ["Bash"] },
    { deny: ["Bash(rm a)"] },
  );
});

describe("a file", () => {
  grid(
    "is asked for by where it really is",
    { ask: ["Write(.github/**)"] },
    {
      ask: [
        "Write(.github/x.yml)",
        "Write(link/x.yml)",
        "Write(src/../.github/x)",
        `Write(${PROJECT}/.github/x)`,
      ],
      allow: ["Write(src/a)", "Read(.github/x.yml)"],
    },
  );
  grid(
    "that a person has allowed",
    { ask: ["Write(.github/**)"], always: ["Write(.github/ok/**)"] },
    { allow: ["Write(.github/ok/a)"], ask: ["Write(.github/x)"] },
  );

  test("an opened file is asked for where the call's own path was not", () => {
    const rights = of({ ask: ["Write(.github/**)"] });
    const written = call("Write(src/a)");
    expect(rights.asks(written)).toBeNull();
    expect(rights.asks({ ...written, opened: `${PROJECT}/.github/a` })).toMatchObject({
      rules: ["Write(.github/**)"],
      isSearch: false,
    });
    expect(rights.asks({ ...written, opened: `${PROJECT}/src/a` })).toBeNull();
  });

  test("a search is asked for files that Read is asked for", () => {
    const rights = of({ ask: ["Read(secret/**)"], always: ["Read(secret/known)"] });
    const search = call("Grep(.)");
    const opened = (file: string) => rights.asks({ ...search, opened: `${PROJECT}/${file}` }, ["Read"]);
    expect(rights.asks(search)).toBeNull();
    expect(opened("secret/key")).toMatchObject({ rules: ["Read(secret/**)"], isSearch: true });
    expect(opened("secret/known")).toBeNull();
    expect(opened("src/a")).toBeNull();
  });
});

describe("the mode outside", () => {
  grid(
    "asks for what changes something outside the project's files",
    { mode: "outside" },
    {
      ask: [
        "Bash(npm test)",
        ...["make", "node", "node < a.js", "python3", "npm", "docker"].map((line) => `Bash(${line})`),
        "Bash(rm a)",
        "Bash(git push)",
        "Bash(git commit -m x)",
        "Bash(curl https://x)",
        "Bash(find . -delete)",
        "Bash(find . -exec rm {} +)",
        "Bash(sort -o a b)",
        "Bash(git diff --output=x)",
        "Bash(git -c alias.x=!sh x)",
        "Bash(git log --ext-diff)",
        "Bash(env FOO=1 ls)",
        "Bash(ls $(rm a))",
        "Bash(eval ls)",
        "Bash(rg --pre sh x)",
        "Bash(uniq a b)",
        ...["Bash(ps auxe)", "Bash(ps $x)", "Bash(ss -K)", "Bash(lsof -D u)", "Bash(column -t ../a)"],
        ...[
          "Bash(docker ps -H ssh://x)",
          "Bash(docker $x)",
          "Bash(docker images x rm)",
          "Bash(pgrep --signal 9 x)",
        ],
        ...[
          "Bash(for i in 1; do rm $i; done)",
          "Bash(if rm a; then ls; fi)",
          "Bash(while read PS4; do ls; done)",
        ],
        ...[
          "Bash(cat ../a)",
          "Bash(cat /etc/passwd)",
          "Bash(cat $HOME/a)",
          "Bash(ls > ../a)",
          "Bash(ls > $x)",
        ],
        ...["Bash(ls > .git/config)", "Bash(cd ..; cat a)", "Bash(for i in 1; do cat a; cd ..; done)"],
        ...[
          "Bash(f() { ls; }; f)",
          "Bash(case a in b) ls;; esac)",
          "Bash(diff <(ls) a)",
          "Bash(echo $((x)))",
        ],
        "Bash(find $X)",
        "Bash(./ls)",
        "Bash(command ls)",
        "Write(../other/a)",
        "Write(/etc/passwd)",
        "Read(../other/a)",
        "Grep(../other)",
        "WebFetch(https://x)",
        "mcp__x__put",
        "/dev/shell",
      ],
      allow: [
        "Read(a)",
        "Write(a)",
        `Write(${PROJECT}/src/a)`,
        "Grep(.)",
        "Complete",
        "mcp__x__get",
        "Bash(ls -la)",
        "Bash(cat a | grep b | wc -l)",
        "Bash(git status && git diff HEAD~1)",
        "Bash(git log -p -3)",
        "Bash(find . -name '*.ts')",
        "Bash(ls 2>/dev/null)",
        "Bash(sort a)",
        "Bash(cd src && pwd)",
        "Bash([ -f a ] && echo yes)",
        ...["Bash(for i in 1 2; do echo $i; done)", "Bash(while ! [ -f a ]; do sleep 1; done)"],
        ...["Bash(ps aux | head)", "Bash(ps -ef)", "Bash(ps -o pid,cmd -p 1)", "Bash(pgrep -fl node)"],
        ...["Bash(lsof -nP -i :3000)", "Bash(ss -tlnp)", "Bash(printenv HOME)", "Bash(column -s, -t a)"],
        ...["Bash(docker ps -a --format '{{.Names}}')", "Bash(docker images)"],
        ...["Bash(if [ $? -eq 0 ]; then cat a; else ls; fi)", "Bash([[ $x == a* ]] && ls)"],
        ...["Bash(echo a > x.txt)", "Bash(echo a >> src/x 2>&1)", "Bash(cat > a <<'E'\n$(rm a)\nE)"],
        ...[
          "Bash(FOO=1 ls)",
          "Bash(x=5; echo $x)",
          'Bash(x=$(date); echo "$x")',
          "Bash(echo `git rev-parse HEAD`)",
        ],
        ...[
          "Bash(for f in src/*.ts; do head -3 $f; done)",
          "Bash(for f in $(git ls-files); do wc -l $f; done)",
        ],
        ...[
          "Bash(find . -name a | xargs wc -l)",
          "Bash(find . -exec grep -l a {} +)",
          "Bash(cd src && cat ../a)",
        ],
        ...[
          "Bash(git -C src status)",
          "Bash(git --no-pager log -5 --format=%h)",
          "Bash(timeout 5 ls)",
          "Bash(node -v)",
        ],
        ...[
          "Bash(sed -n 1,5p a)",
          "Bash(awk '{print $1}' a)",
          "Bash(set -e; ls > /dev/stderr)",
          "Bash(cat < a)",
        ],
      ],
    },
  );
  grid(
    "and a person's always",
    { mode: "outside", project: ["Bash(npm test *)"] },
    {
      allow: ["Bash(npm test)", "Bash(cd a && npm test | tail -3)"],
      ask: ["Bash(npm install)", "Bash(npm test; rm a)"],
    },
  );
});

describe("read in the mode outside", () => {
  const outside = ["../x", "/etc/passwd"];
  grid(
    "sets variables whose values are any text, or names that are listed",
    { mode: "outside" },
    {
      allow: [
        'Bash(find . -name "*.ts" | while read f; do wc -l "$f"; done)',
        'Bash(find src | while IFS= read -r f; do sort -- "$f"; sed -n 1p "$f"; done)',
        'Bash(find . -print0 | while IFS= read -r -d "" f; do head -n 3 "$f"; done)',
        'Bash(git ls-files | grep a | while read -r f; do grep -c x "./$f"; done)',
        'Bash(ls | while read -r f; do if [ -f "$f" ]; then basename "$f" .ts; fi; done > names)',
        'Bash(ls | while read f; do wc -l < "$f"; done)',
        "Bash(ps aux | while read -r user pid rest; do echo $pid; done)",
        'Bash(while IFS=: read -r a b; do printf "%s\n" "$b"; done < a.txt)',
        'Bash(cat a.txt | while read; do echo "$REPLY" | tr a b; done)',
        "Bash(read -r -n 3 -p 'name? ' -- x < a.txt; echo \"$x\" | grep -q a)",
      ],
      ask: [
        ...["PATH", "IFS", "LD_PRELOAD", "HOME", "BASH_ENV", "PS4", "http_proxy", "x[0]", "x PATH"].map(
          (names) => `Bash(read ${names} < a; ls)`,
        ),
        ...["$x", '"$x"', "-a x", "-e x", "-u $x x", "-t 'a[1]' x", "-i x", "-zr x", "x?y"].map(
          (args) => `Bash(read ${args} < a; ls)`,
        ),
        ...[
          "$x",
          '"$x"',
          'cat "$x"',
          "cat ./$x",
          'sort -- "$x"',
          'sort "./$x"',
          'cd "$x"; cat a',
          "find $x",
        ].map((body) => `Bash(read -r x < f; ${body})`),
        ...[
          'sort "$x"',
          'xxd "$x" "$y"',
          'date "$x"',
          'uniq -- a "$x"',
          'git show "$x"',
          'timeout 5 "$x"',
        ].map((body) => `Bash(while read -r x y; do ${body}; done < f)`),
        ...[
          '[ "$x" -eq 1 ]',
          "[ $x = a ]",
          "exit $x",
          'printf "$x"',
          "eval $x",
          'ls > "$x"',
          'wc -l < "$x"',
        ].map((body) => `Bash(cat f | while read x; do ${body}; done)`),
        ...[
          'sort "$f"',
          "sort $f",
          "sort -k $f",
          'ls > "$f"',
          'rm "$f"',
          '"$f"',
          'cat "/$f"',
          'cat "$f/../../x"',
        ].map((body) => `Bash(ls | while read f; do ${body}; done)`),
        'Bash(find . | while read f g; do sort "$f"; done)',
        'Bash(find "$x" | while read f; do cat "$f"; done)',
        'Bash(find -- * | while read f; do sort "$f"; done)',
        ...[
          "IFS=/ read f",
          "IFS=a read -r f g",
          "read -d a f",
          "read -n 2 f",
          "read -u 3 f",
          "read f < x",
        ].map((read) => `Bash(find . | while ${read}; do cat "$f"; done)`),
        ...["< x", "<<< /etc/passwd", "<&3", "<<E\n/etc/passwd\nE"].map(
          (input) => `Bash(find . | while read f; do cat "$f"; done ${input})`,
        ),
        ...[
          "echo /etc/x",
          "cat list",
          "{ find .; echo /etc/x; }",
          "(ls; echo ..)",
          "find . | sed s/a/b/",
        ].map((list) => `Bash(${list} | while read f; do cat "$f"; done)`),
        ...['f=a; read f < x; cat "$f"', 'find . | { read f; read f < x; cat "$f"; }'].map(
          (line) => `Bash(${line})`,
        ),
        'Bash(ls | while true; do read f || break; cat "$f"; done)',
        ...outside.map((dir) => `Bash(find ${dir} | while read f; do cat "$f"; done)`),
        ...[
          'f=a; while read f; do b="$f"; cat "$b"; done < x',
          "f=a; for i in 1 2; do b=$f; cat $b; f=/etc/x; done",
        ].map((line) => `Bash(${line})`),
        'Bash(f=a; for i in 1 2; do b="$f"; sort "$b"; f=-oran; done)',
        'Bash(find . | while read d; do git -C "$d" status; done)',
        'Bash(for d in */; do git -C "$d" diff; done)',
        "Bash(mapfile -t x < f; echo a)",
        "Bash(while getopts ab x; do echo $x; done)",
      ],
    },
  );
});

test.each(["ls|", "read a;", "ls | read a;", "find . | xargs cat;", "rm a;"])(
  "a line of as many %j as fit is judged in a moment",
  (part) => {
    const line = `${part.repeat(Math.floor(90_000 / part.length))}ls`;
    const start = performance.now();
    expect(verdictOf(of({ mode: "outside", always: ["Bash(rm *)"] }), `Bash(${line})`)).toBe("ask");
    expect(performance.now() - start).toBeLessThan(5_000);
  },
);

describe("a folder outside of the project", () => {
  const write = call("Write(/data/site/a)");
  const read = call("Read(/data/site/a)");
  const outside = of({ mode: "outside" });

  test("is opened by a yes: to a read for reading, to a write for writing", () => {
    expect(outside.opens(read)).toEqual({ dir: "/data/site", write: false });
    expect(outside.opens(write)).toEqual({ dir: "/data/site", write: true });
    const readable = outside.opening([{ dir: "/data/site", write: false }]);
    expect([readable.asks(read), readable.opens(read)]).toEqual([null, undefined]);
    expect(readable.asks(write)?.rules).toEqual(["the mode outside"]);
    expect(readable.refusalOfOpened({ ...write, opened: "/data/site/a" }, [])).toContain("for reading only");
    const open = readable.opening([{ dir: "/data/site", write: true }]);
    expect(open.opened).toEqual([{ dir: "/data/site", write: true }]);
    expect([open.asks(write), open.asks(call("Read(/data/site/b/c)"))]).toEqual([null, null]);
    expect(open.asks(call("Write(/data/other)"))).not.toBeNull();
  });

  test("is opened by what is always allowed, for writing where the rule names it whole", () => {
    const opened = (...rules: string[]) => of({ mode: "outside", project: rules }).opened;
    expect(opened("Write(/data/site/**)")).toEqual([{ dir: "/data/site", write: true }]);
    expect(opened("Write(/data/a.txt)")).toEqual([{ dir: "/data/a.txt", write: true }]);
    expect(opened("Read(/data/site/**)")).toEqual([{ dir: "/data/site", write: false }]);
    expect(opened("Write(/data/*.md)")).toEqual([{ dir: "/data", write: false }]);
    expect(opened("Write(src/**)", "Bash(/data/run *)", "Write")).toEqual([]);
  });

  test("that holds the project or the home is not opened as a whole", () => {
    expect(outside.opens(call("Write(../notes.md)"))).toEqual({ dir: "/home/u/notes.md", write: true });
    expect(outside.opens(call("Write(/notes.md)"))).toEqual({ dir: "/notes.md", write: true });
  });

  test("that was given with the run is not asked for", () => {
    const given = outside.withFacts({ folders: ["/data/site"] });
    expect([given.asks(write), given.opens(write)]).toEqual([null, undefined]);
  });

  test("is in the record, and open to children", () => {
    const open = outside.opening([{ dir: "/data/site", write: true }]);
    expect(Permissions.from(open.record(), FACTS).opened).toEqual(open.opened);
    expect(open.child(["*"], []).asks(write)).toBeNull();
    expect(outside.child(["*"], []).within(open).asks(write)).toBeNull();
  });

  test("whose file can't be allowed is refused before the question", () => {
    const guarded = [
      { dir: "/data/keys", readable: false },
      { dir: "/data/records", readable: true },
    ];
    const why = (text: string) => outside.impossible(call(text), guarded);
    expect(why("Read(/data/keys/a)")).toContain("settings and keys of Rnix");
    expect(why("Write(/data/records/a)")).toContain("records of Rnix");
    expect(why("Read(/data/records/a)")).toBeNull();
    expect(why("Write(/tmp)")).toContain("is a folder");
  });
});

describe("a mode", () => {
  const edits = [
    "Bash(mkdir -p a/b)",
    "Bash(touch a)",
    "Bash(mv a b)",
    "Bash(cp -r a b)",
    "Bash(rm -f a)",
    "Bash(mkdir a && touch a/b)",
    "Bash(sed -i s/a/b/ a)",
    "Bash(sed -nEi 's|a|b|g; 3d' a b)",
  ];
  const risky = [
    "Bash(npm test)",
    "Bash(rm -r a)",
    "Bash(rm -f ../a)",
    "Bash(touch /tmp/a)",
    "Bash(mv a .git/hooks/x)",
    "Bash(cd .. && touch a)",
    "Bash(touch $HOME/a)",
    "Bash(mkdir .)",
    "Bash(touch a; make)",
    "Bash(sed -i s/a/b/e a)",
    "Bash(sed -i 'w /tmp/a' a)",
    "Bash(sed -i e a)",
    "Bash(sed -i.bak s/a/b/ a)",
    "Bash(sed -i s/a/b/ a -f x)",
    "Bash(sed -i s/a/b/ ../a)",
    "Bash(sed -i s/a/b/ .git/config)",
    'Bash(sed -i "s/a/$x/" a)',
    "Write(/tmp/a)",
    "WebFetch",
    "mcp__x__put",
  ];
  const looks = ["Read(a)", "Grep(a)", "Bash(ls)", "Bash(git log)", "mcp__x__get", "Complete"];
  grid("off", { mode: "off" }, { allow: [...looks, ...edits, ...risky, "Write(a)"] });
  grid("edits", { mode: "edits" }, { allow: [...looks, ...edits, "Write(a)"], ask: risky });
  grid("outside", { mode: "outside" }, { allow: [...looks, "Write(a)"], ask: [...edits, ...risky] });
  grid("plan", { mode: "plan" }, { allow: looks, ask: [...edits, ...risky, "Write(a)", "/dev/shell"] });
  grid(
    "plan refuses what was allowed before",
    { mode: "plan", always: ["Write", "Bash(npm *)"] },
    { ask: ["Write(a)", "Bash(npm test)"], allow: ["Read(a)"] },
  );

  test("plan refuses what changes something, and asks for what only reads from a network", () => {
    const plan = of({ mode: "plan", ask: ["Bash"] });
    const rules = (text: string): string[] | undefined => plan.asks(call(text))?.rules;
    expect(rules("Write(a)")).toEqual(["the mode plan"]);
    expect(rules("Bash(ls; make)")).toEqual(["the mode plan"]);
    expect(rules("WebFetch")).toEqual(["the mode outside"]);
    expect(rules("Bash(ls)")).toEqual(["Bash"]);
  });

  test("of a child is never looser than its parent's, and follows it where it has none of its own", () => {
    const parent = of({ mode: "outside" });
    const [own, none] = [parent.child(["*"], []).asking([], "edits"), parent.child(["*"], [])];
    expect([own.askMode, none.askMode]).toEqual(["outside", "outside"]);
    const looser = parent.asking([], "off");
    expect([own.within(looser).askMode, none.within(looser).askMode]).toEqual(["edits", "off"]);
    expect(none.within(parent.asking([], "plan")).askMode).toBe("plan");
    const record = own.record();
    expect(record).toMatchObject({ ask_mode: "edits", ask_mode_above: "outside" });
    expect(Permissions.from(record, FACTS).askMode).toBe("outside");
  });
});

describe("a child", () => {
  const parent = of({ ask: ["Bash(rm *)"], mode: "outside", always: ["Bash(make *)"] });

  test("keeps every question of its parent, whatever its own lists say", () => {
    for (const child of [parent.child(["*"], []), parent.child(["Bash"], []).asking([], "off")]) {
      expect(verdictOf(child, "Bash(rm a)")).toBe("ask");
      expect(verdictOf(child, "Bash(npm test)")).toBe("ask");
      expect(verdictOf(child, "Bash(make all)")).toBe("allow");
    }
  });

  test("adds its own, which its parent does not get", () => {
    const child = parent.child(["*"], []).asking(["Read(secret/**)"]);
    expect(verdictOf(child, "Read(secret/a)")).toBe("ask");
    expect(verdictOf(parent, "Read(secret/a)")).toBe("allow");
  });

  test("is asked what its parent is asked from now on, and keeps what a person has allowed", () => {
    const child = of({}).child(["*"], []).allowAlways(["Bash(git *)"], "run");
    const stricter = child.within(of({ ask: ["Bash"] }));
    expect(verdictOf(stricter, "Bash(ls)")).toBe("ask");
    expect(verdictOf(stricter, "Bash(git log)")).toBe("allow");
  });

  test("may not run by its options what a person has to decide", () => {
    expect(parent.toolRefusal("Bash", "rm -rf x")).toContain(
      "A person has to decide it, because of the ask rule Bash(rm *)",
    );
    expect(parent.toolRefusal("Bash", "ls")).toBeNull();
  });
});

describe("the record", () => {
  test("holds questions and what was allowed for the run as one unit, and not what was allowed for the project", () => {
    const rules = {
      ask: ["Bash"],
      mode: "outside",
      always: ["Bash(make *)"],
      project: ["Bash(npm *)"],
    } as const;
    const child = of({
      ...rules,
      ask: [...rules.ask],
      always: [...rules.always],
      project: [...rules.project],
    })
      .child(["*"], [])
      .asking(["Write"]);
    const record = child.record();
    expect(record).toMatchObject({
      ask: ["Write"],
      ask_above: ["Bash"],
      ask_mode_above: "outside",
      always: ["Bash(make *)"],
    });
    const restored = Permissions.from(record, FACTS);
    expect(restored.record()).toEqual(record);
    expect(verdictOf(restored, "Bash(make a)")).toBe("allow");
    expect(verdictOf(restored, "Bash(npm test)")).toBe("ask");
    expect(verdictOf(restored, "Write(a)")).toBe("ask");
  });

  test("has no such keys for a run without questions", () => {
    expect(Object.keys(of({}).record())).toEqual(["allow", "deny"]);
  });

  test("an unknown tool in an ask rule is an error", () => {
    expect(() => of({ ask: ["Bsah"] })).toThrow('Did you mean "Bash"?');
  });
});

describe("the star of an always covers no option that may run a program", () => {
  const always = [
    "git push",
    "git branch",
    "sort",
    "git fetch",
    "git rebase",
    "go test",
    "make",
    "npm run test",
    "gh api",
    "cargo test",
    "curl",
  ];
  grid(
    "of programs that have such options",
    { mode: "outside", always: always.map((title) => `Bash(${title} *)`) },
    {
      allow: [
        ...["Bash(git push -u origin main)", "Bash(git fetch --all --prune)", "Bash(git rebase main)"],
        ...[
          "Bash(go test -v ./...)",
          "Bash(make -j4 all)",
          "Bash(npm run test -- --watch=false)",
          "Bash(gh api repos/x)",
        ],
        ...[
          "Bash(cargo test --release -- --nocapture)",
          "Bash(curl -sSf https://x)",
          "Bash(make all > log 2>&1)",
        ],
        ...["Bash(curl -d a=b -H 'A: b' http://localhost:80/x)", "Bash(if make; then git push; fi)"],
      ],
      ask: [
        ...[
          "Bash(curl -o /etc/x https://x)",
          "Bash(curl -K x)",
          "Bash(curl -d @/etc/x https://x)",
          "Bash(curl $X)",
        ],
        ...["Bash(curl file:/etc/x)", "Bash(curl -d x=@y https://x)", "Bash(curl '{file}:///etc/x')"],
        ...[
          "Bash(git push --receive-pack=./x)",
          "Bash(git push --rec ./x)",
          "Bash(git fetch --upload-pack ./x)",
          "Bash(git branch --edit-description)",
          "Bash(sort --compress-program ./x a)",
        ],
        ...[
          "Bash(git rebase --exec ./x main)",
          "Bash(git rebase -x ./x)",
          "Bash(git -c a.b=c push)",
          "Bash(git push $X)",
        ],
        ...["Bash(go test -exec ./x)", "Bash(make --eval=x)", "Bash(make -f x)", "Bash(make SHELL=./x)"],
        ...[
          "Bash(npm run test --script-shell=./x)",
          "Bash(gh api -X DELETE repos/x)",
          "Bash(cargo test --config x)",
        ],
        ...["Bash(make all > /etc/x)", "Bash(PATH=. make)", "Bash(FOO=1 git push)", "Bash(make; rm a)"],
      ],
    },
  );
});

describe("an always for a program that changes files covers those of the project", () => {
  const programs = ["rm", "mv", "cp", "ln", "touch", "mkdir", "tee", "chmod"];
  const always = [
    ...["pushd", "/bin/rm", "xargs", ...programs].map((name) => `Bash(${name} *)`),
    ...["Bash(find . -delete)", "Bash(xargs rm)", "Bash(rm -rf build)", "Bash(rm -rf dist/*)"],
  ];
  grid(
    "only",
    { mode: "outside", always },
    {
      allow: [
        ...[
          "rm a",
          "rm -f src/a *.o",
          "mv src/a b",
          "cp -r src/a src/b",
          "mkdir -p a/b && touch a/b/c",
          "ls | tee a",
        ],
        ...["rm -rf build", "rm -rf dist/a", "rm -- a", "cd src && rm ../a", "rm src/*.o", "chmod +x a"],
        `rm ${PROJECT}/a`,
      ].map((line) => `Bash(${line})`),
      ask: [
        ...[
          "rm ../a",
          "rm /etc/a",
          "rm ~/a",
          "rm $X",
          "rm $X/a",
          'rm "$X"',
          "rm a/../../b",
          "rm $(ls)",
          "rm */a",
        ],
        ...[
          "rm -rf src",
          "rm -r -f src",
          "rm -fR a",
          "rm --recursive a",
          "chmod -R 755 a",
          "rm -rf dist/../src",
        ],
        ...["rm .", "rm out/a", "rm .git/config", "rm -rf build ../x", "rm .*", "rm {a,../b}", "rm {a,/b}"],
        ...[
          "cd .. && rm a",
          "cd /tmp; rm -rf build",
          "cd $X && rm a",
          "(cd ..; rm -rf build)",
          "cd - && touch a",
          "cd src && ln -s ../x ../a",
          "pushd .. && rm a",
          "/bin/rm ../a",
          "/bin/rm -r a",
          "cd ..; find . -delete",
          "(cd ..) && chmod -R 755 a",
        ],
        ...[
          "cp /etc/passwd a",
          "cp a -t ..",
          "cp a -t/etc",
          "cp --target-directory=/etc a",
          "cp *",
          "mv a out/b",
        ],
        ...[
          "ls | tee ../a",
          "ls | xargs rm",
          "find . -exec rm {} +",
          "ln -s b a",
          "for f in $(ls ..); do rm $f; done",
        ],
      ].map((line) => `Bash(${line})`),
    },
  );
  test("and moves no link, which would lead elsewhere", () => {
    const project = mkdtempSync(join(realpathSync(tmpdir()), "rnix-links-"));
    try {
      mkdirSync(join(project, "deep/er"), { recursive: true });
      symlinkSync("../../x", join(project, "deep/er/link"));
      const facts = { ...FACTS, projectDir: project, cwd: project, realPath: realTarget };
      const rights = Permissions.of({ ...facts, allow: ["*"], deny: [] })
        .asking([], "outside")
        .allowAlways(always, "run");
      const isAsked = (line: string): boolean => rights.asks(callOf(facts, `Bash(${line})`)) !== null;
      expect(["mv deep/er/link l && rm l/a", "mv deep d", "cp -r deep/* d"].map(isAsked)).toEqual([
        true,
        true,
        true,
      ]);
      expect(["mv a b && rm b", "rm deep/er/link/a"].map(isAsked)).toEqual([false, false]);
    } finally {
      rmSync(project, { recursive: true });
    }
  });
  grid(
    "unless it names another path itself",
    { mode: "outside", always: ["Bash(rm /tmp/x/*)"] },
    { allow: ["Bash(rm /tmp/x/a)"], ask: ["Bash(rm /tmp/x/../a)", "Bash(rm a)"] },
  );
});

describe("always offers", () => {
  test.each([
    ["Bash(git push origin main)", ["Bash(git push *)"]],
    ["Bash(npm test && git push)", ["Bash(npm test *)", "Bash(git push *)"]],
    ["Bash(npm run build -- --x)", ["Bash(npm run build *)"]],
    ["Bash(rm -rf build)", ["Bash(rm -rf build)"]],
    ["Bash(rm a && chmod -R 755 b)", ["Bash(rm *)", "Bash(chmod -R 755 b)"]],
    ["Bash(cd src && rm a)", ["Bash(rm *)"]],
    ["Bash(rm -rf build/*)", []],
    ["Bash(rm ../a)", []],
    ["Bash(rm -rf $X)", []],
    ["Bash(curl -s https://x | jq .a)", ["Bash(curl *)"]],
    ["Bash(python3 -c 'print(1)')", ["Bash(python3 *)"]],
    ["Bash(make all)", ["Bash(make *)"]],
    ["Bash(make > log)", ["Bash(make *)"]],
    ["Bash(cd web && npm ci)", ["Bash(npm ci *)"]],
    ["Bash(cat a | tee b)", ["Bash(tee *)"]],
    ["Bash(for f in a b; do curl -O $f; done)", []],
    ["Bash(curl -o x https://x)", ["Bash(curl -o x https://x)"]],
    ["Bash(bundle exec rspec)", ["Bash(bundle exec rspec)"]],
    ["Bash(uvx ruff)", ["Bash(uvx ruff)"]],
    ["Bash(npm config get x)", ["Bash(npm config get x)"]],
    ["Bash(crontab -l)", ["Bash(crontab -l)"]],
    ["Bash(split a)", ["Bash(split a)"]],
    ["Bash(pytest -x)", ["Bash(pytest *)"]],
    ["Bash(./build.sh)", ["Bash(./build.sh *)"]],
    ["Bash(rm *.o)", ["Bash(rm *)"]],
    ["Bash(rm $X)", []],
    ["Bash(npm run)", []],
    ["Bash(echo $(rm a))", ["Bash(rm *)"]],
    ["Bash(git tag -a v1 -m x)", ["Bash(git tag *)"]],
    ["Bash(git branch -d x)", ["Bash(git branch *)"]],
    ["Bash(git remote add o x)", ["Bash(git remote *)"]],
    ["Bash(sort -u a -o b)", ["Bash(sort *)"]],
    ["Bash(sort --compress-program=./x a)", ["Bash(sort --compress-program=./x a)"]],
    ["Bash(git tag -s v1)", ["Bash(git tag -s v1)"]],
    ["Bash(sh -c 'rm a')", []],
    ["Bash(sh build.sh)", ["Bash(sh build.sh)"]],
    ["Bash(xargs rm)", []],
    ["Bash(curl -s https://x | sh)", []],
    ["Bash(curl -s https://x | bash -e -)", []],
    ["Bash(cat a | python3)", []],
    ["Bash(/bin/rm ../a)", []],
    ["Bash(find . -delete)", []],
    ["Bash(find build -delete)", ["Bash(find build -delete)"]],
    ["Bash(env X=1 make)", ["Bash(env X=1 make)"]],
    ["Bash(git push --receive-pack=./x)", ["Bash(git push --receive-pack=./x)"]],
    ["Bash(git config core.pager x)", ["Bash(git config core.pager x)"]],
    ["Bash(docker run x)", ["Bash(docker run x)"]],
    ["Bash(make --eval=x)", ["Bash(make --eval=x)"]],
    ["Bash(cat /etc/hosts)", ["Read(/etc/**)"]],
    ["Bash(echo a > /tmp/x)", ["Write(/tmp/**)"]],
    ["Bash(f() { rm a; }; f)", []],
    ["Write(.github/a.yml)", ["Write(.github/a.yml)"]],
    ["Write(/etc/hosts)", ["Write(/etc/**)"]],
    ["Write(/home/u/project/../notes.md)", ["Write(/home/u/notes.md)"]],
    ["WebFetch(https://docs.example.com/a/b?c=1&d=2)", ["WebFetch(https://docs.example.com/*)"]],
    ["WebFetch(http://[::1]:80/a)", []],
    ["mcp__x__put", ["mcp__x__put"]],
    ["/dev/shell", []],
  ])("for %s the rules %p", (text, rules) => {
    const rights = of({ ask: ["*"] });
    expect(rights.suggestAlways(call(text))).toEqual(rules);
    if (rules.length > 0) expect(verdictOf(of({ mode: "outside", always: rules }), text)).toBe("allow");
  });
});
