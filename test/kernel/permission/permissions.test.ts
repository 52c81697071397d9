import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Call, type Facts, Permissions } from "../../../src/kernel/permission/permissions.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { callOf } from "./call-of.ts";

const PROJECT = "/home/u/project";
const FACTS: Facts = {
  tools: [
    { name: "Read", subject: "path", path: "/dev/fs", readOnly: true },
    { name: "Write", subject: "path", path: "/dev/fs" },
    { name: "Grep", subject: "path", path: "/dev/fs", readOnly: true },
    { name: "Bash", subject: "command", path: "/dev/shell" },
    { name: "Complete", path: "/dev/kernel/complete" },
    { name: "mcp__x__get", path: "/mnt/mcp/x" },
    { name: "mcp__x__put", path: "/mnt/mcp/x" },
    { name: "mcp__y__get", path: "/mnt/mcp/y" },
  ],
  devices: [
    "/dev/fs",
    "/dev/shell",
    "/dev/kernel/complete",
    "/dev/llm/openai",
    "/mnt/mcp/x",
    "/mnt/mcp/y",
    "/proc",
  ],
  projectDir: PROJECT,
  cwd: PROJECT,
  realPath: (path) => path,
};

function of(allow: string[], deny: string[] = [], facts: Partial<Facts> = {}): Permissions {
  return Permissions.of({ ...FACTS, ...facts, allow, deny });
}

const call = (text: string): Call => callOf(FACTS, text);

function grid(allow: string[], deny: string[], covered: string[], refused: string[]): void {
  describe(`allow [${allow.join(", ")}] deny [${deny.join(", ")}]`, () => {
    const permissions = of(allow, deny);
    for (const text of covered) {
      test(`covers ${JSON.stringify(text)}`, () => expect(permissions.refusal(call(text))).toBeNull());
    }
    for (const text of refused) {
      test(`does not cover ${JSON.stringify(text)}`, () => {
        expect(permissions.covers(call(text))).toBe(false);
        expect(permissions.refusal(call(text))).toBeString();
      });
    }
  });
}

describe("names", () => {
  grid(["*"], [], ["Read(a)", "Bash(rm -rf /)", "Complete", "/dev/fs/x", "/proc/1/status", "/dev/none"], []);
  grid([], [], [], ["Read(a)", "Bash(ls)", "Complete", "/dev/fs", "/proc/1/status"]);
  grid(
    ["Read"],
    [],
    ["Read(a)", "Read(../../etc/passwd)"],
    ["Write(a)", "Grep(a)", "Bash(ls)", "/dev/fs", "/dev/fs/a", "read(a)", "Complete"],
  );
  grid(["*", "Read"], [], ["Write(a)", "/dev/fs"], []);
  grid(
    ["mcp__x__*"],
    [],
    ["mcp__x__get", "mcp__x__put"],
    ["mcp__y__get", "Read(a)", "/mnt/mcp/x", "mcp__x__other"],
  );
  grid(["mcp__*__get"], [], ["mcp__x__get", "mcp__y__get"], ["mcp__x__put"]);

  test("a tool's name does not allow another tool's device", () => {
    expect(of(["Read"]).covers({ tool: "Read", path: "/dev/shell" })).toBe(false);
    expect(of(["Read"]).covers({ tool: "Read", path: "/dev/fsx/a" })).toBe(false);
  });
});

describe("devices", () => {
  grid(
    ["/dev/fs"],
    [],
    ["/dev/fs", "/dev/fs/a/b", "/dev/fs/a/../b", "Read(a)", "Write(/etc/passwd)"],
    ["/dev/shell", "/dev/fsx", "Bash(ls)", "/proc/1/status"],
  );
  grid(
    ["/dev/fs/**"],
    [],
    ["/dev/fs", "/dev/fs/a/b", "/dev/fs/a/../b", "Read(a)"],
    ["/dev/shell", "/dev/fsx", "Bash(ls)"],
  );
  grid(
    ["/dev/fs/src/**"],
    [],
    ["/dev/fs/src", "/dev/fs/src/a/b", "Read(src/a)", "Write(./src/../src/a)", `Read(${PROJECT}/src/a)`],
    [
      ...["/dev/fs", "/dev/fs/a", "/dev/fs/src/../a", "/dev/fs/src/./a", "/dev/fs/src//a", "/dev/fs/srcx"],
      ...["Read(a)", "Read(src/../a)", "Read(.)", "Grep", "Read(../x)"],
    ],
  );
  grid(
    ["/dev/fs/src"],
    [],
    ["/dev/fs/src", "/dev/fs/src/a", "Read(src/a)"],
    ["/dev/fs", "/dev/fs/srcx", "Read(a)"],
  );
  grid(
    ["/dev/**"],
    [],
    ["/dev/fs", "/dev/shell", "Bash(ls)", "/dev/llm/openai"],
    ["/proc/1/status", "mcp__x__get"],
  );
  grid(["/proc/*/status"], [], ["/proc/1/status"], ["/proc/1/context", "/proc", "/proc/1/x/status"]);
  grid(["/**"], [], ["/proc/1/status", "/dev/fs", "Bash(ls)"], []);
});

describe("path patterns", () => {
  grid(
    ["Read(src/**)"],
    [],
    [
      ...["Read(src/a.ts)", "Read(src/a/b.ts)", "Read(src)", "Read(./src/a)", "Read(src/../src/a)"],
      ...[`Read(${PROJECT}/src/a)`, `Read(${PROJECT}/x/../src/a)`, "Read(src//a)", "Read(src/.env)"],
    ],
    [
      ...[
        "Read(a.ts)",
        "Read(src/../a)",
        "Read(../src/a)",
        "Read(/src/a)",
        "Read(srcx/a)",
        "Read(.)",
        "Read()",
      ],
      ...["Read", "Write(src/a)", "Read(/etc/passwd)", "Read(src/\0)", "/dev/fs/src/a", "Read(SRC/a)"],
      `Read(${PROJECT}x/src/a)`,
    ],
  );
  grid(["Read(./src/**)"], [], ["Read(src/a)"], ["Read(a)"]);
  grid(["Read(src/)"], [], ["Read(src/a/b)", "Read(src)"], ["Read(srcx)"]);
  grid(["Read(*.md)"], [], ["Read(README.md)", "Read(.md)"], ["Read(docs/a.md)", "Read(a.mdx)"]);
  grid(["Read(**/*.md)"], [], ["Read(README.md)", "Read(docs/x/a.md)"], ["Read(../a.md)", "Read(a.ts)"]);
  grid(["Read(**)"], [], ["Read(a)", "Read", "Read(.)"], ["Read(../a)", "Read(/etc/passwd)"]);
  grid(
    ["Read(/data/**)"],
    [],
    ["Read(/data/a)", "Read(/data/../data/a)"],
    ["Read(data/a)", "Read(/data/../a)"],
  );
  grid(["Read(app/[id]/?.ts)"], [], ["Read(app/[id]/a.ts)"], ["Read(app/i/a.ts)", "Read(app/[id]/ab.ts)"]);
  grid(["Read(src/**)", "Read(docs/**)"], [], ["Read(src/a)", "Read(docs/a)"], ["Read(a)"]);

  test("a relative subject starts in the working folder, a pattern in the project", () => {
    const permissions = of(["Read(src/**)"], [], { cwd: `${PROJECT}/src` });
    expect(permissions.covers(call("Read(a)"))).toBe(true);
    expect(permissions.covers(call("Read(../a)"))).toBe(false);
    expect(permissions.covers(call("Read"))).toBe(true);
  });

  test("the part of the path behind the device is the subject where there is no other subject", () => {
    const permissions = of(["Read(src/**)"]);
    expect(permissions.covers({ tool: "Read", path: "/dev/fs/src/a" })).toBe(true);
    expect(permissions.covers({ tool: "Read", path: "/dev/fs/a" })).toBe(false);
  });
});

describe("links are followed before a path is compared", () => {
  let project: string;
  let permissions: (allow: string[], deny?: string[]) => Permissions;

  beforeAll(() => {
    project = realpathSync(mkdtempSync(join(tmpdir(), "rnix-permissions-")));
    mkdirSync(join(project, "src"));
    mkdirSync(join(project, "secret"));
    writeFileSync(join(project, "secret", "key"), "");
    symlinkSync("../secret", join(project, "src", "link"));
    symlinkSync(project, join(project, "again"));
    permissions = (allow, deny = []) =>
      of(allow, deny, { projectDir: project, cwd: project, realPath: undefined });
  });
  afterAll(() => rmSync(project, { recursive: true }));

  test("a link out of the allowed folder is not allowed", () => {
    expect(permissions(["Read(src/**)"]).covers(call("Read(src/link/key)"))).toBe(false);
    expect(permissions(["Read(src/**)"]).covers(call("Read(src/link/new/file)"))).toBe(false);
    expect(permissions(["Read(src/**)"]).covers(call("Read(src/new/file)"))).toBe(true);
    expect(permissions(["Read(src/**)"]).covers(call("Read(again/src/new)"))).toBe(false);
  });

  test("a link into the denied folder is denied", () => {
    const some = permissions(["*"], ["Read(secret/**)"]);
    for (const path of [
      "secret/key",
      "src/link/key",
      "again/secret/key",
      "src/link/new",
      join(project, "again/secret"),
    ])
      expect(some.covers(call(`Read(${path})`))).toBe(false);
    expect(some.covers(call("Read(src/a)"))).toBe(true);
  });
});

describe("command patterns", () => {
  grid(
    ["Bash(git *)"],
    [],
    [
      ...["Bash(git)", "Bash(git log)", "Bash(git log -p --stat)", "Bash(git log; git status)"],
      ...["Bash(git log && git diff || git x | git y & git z)", "Bash(git log\ngit diff)", "Bash((git log))"],
      ...["Bash({ git log; })", "Bash(! git diff --quiet)", "Bash(git 'a;b')", 'Bash(git "a|b")'],
      ...[
        "Bash(git log 2>&1)",
        "Bash(git log >/dev/null)",
        "Bash(git log 2> /dev/null)",
        "Bash(git add *.ts)",
      ],
      ...[
        "Bash(git log $BRANCH)",
        "Bash(git log # rm)",
        "Bash(git apply < patch)",
        "Bash(git commit -m 'a\nb')",
      ],
    ],
    [
      ...[
        "Bash",
        "Bash()",
        "Bash( )",
        "Bash(# git)",
        "Bash(rm x)",
        "Bash(gitx)",
        "Bash(GIT log)",
        "Bash(./git log)",
      ],
      ...["Bash(git log; rm -rf /)", "Bash(git log && rm x)", "Bash(git log\nrm x)", "Bash(git log | sh)"],
      ...["Bash(git log & rm x)", "Bash((git log; rm x))", "Bash({ git log; rm x; })", "Bash(! rm x)"],
      ...["Bash(git $(rm x))", "Bash(git `rm x`)", "Bash(git <(rm x))", 'Bash(git "$(rm x)")'],
      ...["Bash(git log > out)", "Bash(git log >> out)", "Bash(git log &> out)", "Bash(git log <> out)"],
      ...["Bash(FOO=x git log)", "Bash(PATH=. git log)", "Bash($x log)", "Bash(g*t log)", "Bash(git <<E\nE)"],
      ...["Bash(git 'a)", "Bash(if git log; then git x; fi)", "Bash(git() { rm x; }; git log)", "/dev/shell"],
    ],
  );
  grid(["Bash(git log)"], [], ["Bash(git log)", "Bash(git  log)"], ["Bash(git log -p)", "Bash(git log < x)"]);
  grid(
    ["Bash(git * main)"],
    [],
    ["Bash(git push x main)", "Bash(git main)"],
    ["Bash(git push)", "Bash(git main x)"],
  );
  grid(
    ["Bash(npm run test*)"],
    [],
    ["Bash(npm run test:unit)"],
    ["Bash(npm run build)", "Bash(npm run test x)"],
  );
  grid(
    ["Bash(cat src/*)"],
    [],
    ["Bash(cat src/a)"],
    ["Bash(cat src/../key)", "Bash(cat src/$x)", "Bash(cat src/{a,/k})"],
  );
  grid(["Bash(git *)", "Bash(npm *)"], [], ["Bash(git x && npm y)"], ["Bash(git x && yarn y)"]);
  grid(["Bash(git:*)"], [], ["Bash(git)", "Bash(git log)"], ["Bash(gitx)", "Bash(git log; rm x)"]);
  grid(
    ["Bash(npm run test:*)"],
    [],
    ["Bash(npm run test)", "Bash(npm run test:a b)"],
    ["Bash(npm run testing)"],
  );
  grid(["Bash(*)"], [], ["Bash(rm x; ls)"], ["Bash(ls $(x))", "Bash(ls > x)", "/dev/shell"]);
});

describe("deny wins", () => {
  grid(["*"], ["*"], [], ["Read(a)", "/dev/fs", "Complete"]);
  grid(
    ["*"],
    ["Write"],
    ["Read(a)", "Bash(ls)", "/dev/shell"],
    // Opened raw the device would write what it is given.
    ["Write(a)", "Write", "/dev/fs", "/dev/fs/a"],
  );
  grid(["Read", "Write"], ["Wr*"], ["Read(a)"], ["Write(a)"]);
  grid(["*"], ["/dev/fs"], ["Bash(ls)", "/proc/1/status"], ["Read(a)", "/dev/fs", "/dev/fs/a"]);
  grid(
    ["*"],
    ["/dev/fs/secret/**"],
    ["Read(a)", "/dev/fs/a", "Bash(ls)", "/dev/shell"],
    [
      ...[
        "Read(secret/a)",
        "Write(./secret/a)",
        "/dev/fs/secret",
        "/dev/fs/secret/a",
        "/dev/fs/x/../secret/a",
      ],
      ...["/dev/fs/SECRET/a", "/dev/fs", "Grep(.)", "Grep"],
    ],
  );
  grid(
    ["*"],
    ["/dev/fs/**/secret"],
    ["/dev/fs/a", "Read(a)"],
    ["/dev/fs/a/secret", "/dev/fs", "Read(a/b/secret)"],
  );
  grid(
    ["*"],
    ["Read(secret/**)"],
    ["Read(a)", "Write(secret/a)", "Read(secretx)"],
    [
      ...["Read(secret)", "Read(secret/a)", "Read(./secret/a)", "Read(a/../secret/a)", "Read(SECRET/a)"],
      ...[`Read(${PROJECT}/secret/a)`, "Read(.)", "Read", "Read(a\0)", "/dev/fs/a"],
    ],
  );
  grid(["*"], ["Read(**/.env)"], ["Read(a/env)", "Read(.)"], ["Read(.env)", "Read(a/b/.env)"]);
  grid(
    ["Bash"],
    ["Bash(rm *)"],
    [
      ...[
        "Bash(ls)",
        "Bash(git rm x)",
        "Bash(echo 'rm x')",
        "Bash(rmdir x)",
        "Bash(ls > out)",
        "Bash(ls *.rm)",
      ],
      ...[
        "Bash(find . -name rmx)",
        "Bash(echo $x)",
        "Bash(FOO=rm ls)",
        "Bash(env -i A=b ls -l)",
        "Bash(timeout 5 ls)",
      ],
    ],
    [
      ...[
        "Bash(rm x)",
        "Bash(rm)",
        "Bash(ls; rm x)",
        "Bash(ls | rm x)",
        "Bash(! rm x)",
        "Bash((rm x))",
        "Bash(RM x)",
      ],
      ...["Bash(\\rm x)", "Bash('rm' x)", "Bash(/bin/rm x)", "Bash(FOO=x rm y)", "Bash($x y)", "Bash(r? x)"],
      ...[
        "Bash(ls $(rm x))",
        "Bash(if true; then rm x; fi)",
        "Bash(ls 'a)",
        "Bash(sudo rm x)",
        "Bash(xargs rm)",
      ],
      ...[
        "Bash(env A=b rm x)",
        "Bash(timeout 5 /bin/rm x)",
        "Bash(find . -exec rm {} +)",
        "Bash(sh -c 'rm x')",
      ],
      ...["Bash(eval 'rm x')", "Bash(sudo sh -c 'rm x')", "Bash(. ./script)", "Bash", "/dev/shell"],
      ...[
        "Bash(trap 'rm x' EXIT)",
        "Bash(env -S 'rm x')",
        "Bash(env -iS'rm x')",
        "Bash(env --split-string='rm x')",
      ],
      ...["Bash(watch 'rm x')", "Bash(parallel 'rm' ::: x)", "Bash(su -c 'rm x')", "Bash(compgen -C 'rm x')"],
      ...[
        "Bash(flock lock rm x)",
        "Bash(setarch -R rm x)",
        "Bash(prlimit --rttime=1 rm x)",
        "Bash(sudo env -S 'rm x')",
      ],
    ],
  );
  grid(
    ["Bash(git *)"],
    ["Bash(git push *)"],
    ["Bash(git log)", "Bash(git log $x)"],
    ["Bash(git push)", "Bash(git push x)", "Bash(git log; git push)", "Bash(git $x)", "Bash(git pus? x)"],
  );
  grid(["*"], ["mcp__x__*"], ["mcp__y__get"], ["mcp__x__get", "mcp__x__other", "/mnt/mcp/x"]);

  test("a deny rule applies to a tool that is not known (yet)", () => {
    expect(of(["*"], ["mcp__z__*"]).covers({ tool: "mcp__z__get", path: "/mnt/mcp/z" })).toBe(false);
  });
});

describe("an unknown or malformed rule is refused when the rules are read", () => {
  const cases: [string, string][] = [
    ["Raed", 'Did you mean "Read"?'],
    ["read", 'Did you mean "Read"?'],
    ["Bahs(git *)", 'Did you mean "Bash"?'],
    ["Nonsense", "Known:"],
    ["/dev/fss", 'Did you mean "/dev/fs"?'],
    ["/dev/weather", "There is no device"],
    ["Complete(x)", "Complete takes no patterns"],
    ["Read(../x)", "write the absolute path"],
    ["Read({a,b})", "one rule for each"],
    ["Read(~/x)", "write the absolute path"],
    ["Bash(git *", "expected a pattern"],
    ["Bash()", "expected a pattern"],
    ["Bash( )", "expected a pattern"],
    ["mcp__*(x)", "one tool's whole name"],
    ["", "expected a tool's name"],
    [" Read", "expected a tool's name"],
    ["Read Write", "expected a tool's name"],
    ["/dev/fs/", "expected a device path"],
    ["/dev/../fs", "expected a device path"],
    ["/", "expected a device path"],
    [`Bash(${"x".repeat(1_000)})`, "at most 1000"],
  ];
  for (const [rule, message] of cases) {
    test(JSON.stringify(rule.slice(0, 40)), () => {
      for (const attempt of [() => of([rule]), () => of([], [rule]), () => of(["*"]).child([rule], [])]) {
        expect(codeAndMessage(attempt)).toEqual({
          code: "INVALID",
          message: expect.stringContaining(message),
        });
      }
    });
  }

  test("a pattern of names may match nothing yet", () => {
    expect(of(["mcp__later__*", "/mnt/mcp/*-later"]).allowedTools()).toEqual([]);
  });
});

describe("children and skills", () => {
  test("a child's list cannot add to its parent's", () => {
    const parent = of(["Read", "Bash(git *)"]);
    const child = parent.child(["*"], []);
    expect(child.covers(call("Read(a)"))).toBe(true);
    expect(child.covers(call("Bash(git log)"))).toBe(true);
    expect(child.covers(call("Bash(rm x)"))).toBe(false);
    expect(child.covers(call("Write(a)"))).toBe(false);
  });

  test("an empty list allows a child nothing, too", () => {
    expect(of(["*"]).child([], []).covers(call("Read(a)"))).toBe(false);
  });

  test("the parent's deny rules apply to the child, the child's not to the parent", () => {
    const parent = of(["*"], ["Write"]);
    const child = parent.child(["*"], ["Read"]);
    expect(child.covers(call("Write(a)"))).toBe(false);
    expect(child.covers(call("Read(a)"))).toBe(false);
    expect(parent.covers(call("Read(a)"))).toBe(true);
  });
});

describe("the tools shown to the model", () => {
  const cases: [string[], string[], string[], string[]][] = [
    [["*"], [], FACTS.tools.map((tool) => tool.name), [...FACTS.devices]],
    [[], [], [], []],
    [["Read", "Bash(git *)"], [], ["Read", "Bash(git *)"], ["/dev/fs", "/dev/shell"]],
    [["Bash(git *)", "Bash(npm *)"], [], ["Bash(git *)", "Bash(npm *)"], ["/dev/shell"]],
    [["/dev/fs"], [], ["Read", "Write", "Grep"], ["/dev/fs"]],
    [["/dev/fs/src/**"], [], ["/dev/fs/src/**"], ["/dev/fs"]],
    [["/dev/fs"], ["/dev/fs/src/**"], ["Read", "Write", "Grep"], ["/dev/fs"]],
    [["mcp__x__get"], [], ["mcp__x__get"], ["/mnt/mcp/x"]],
    [
      ["*"],
      ["Bash", "Read", "Write", "Grep", "/mnt"],
      ["Complete"],
      ["/dev/kernel/complete", "/dev/llm/openai", "/proc"],
    ],
    [["/dev/f*"], [], ["/dev/f*"], ["/dev/fs"]],
    [["/dev/fs"], ["Write"], ["Read", "Grep"], ["/dev/fs"]],
    [
      ["/dev/**"],
      ["Bash(rm *)"],
      ["Read", "Write", "Grep", "Bash", "Complete"],
      ["/dev/fs", "/dev/kernel/complete", "/dev/llm/openai", "/dev/shell"],
    ],
    [
      ["*"],
      ["/dev/**"],
      ["mcp__x__get", "mcp__x__put", "mcp__y__get"],
      ["/mnt/mcp/x", "/mnt/mcp/y", "/proc"],
    ],
    [["*"], ["*"], [], []],
  ];
  for (const [allow, deny, tools, devices] of cases) {
    test(`allow [${allow}] deny [${deny}]`, () => {
      const permissions = of(allow, deny);
      expect(permissions.allowedTools()).toEqual(tools.toSorted());
      expect(permissions.allowedDevices()).toEqual(devices.toSorted());
      for (const { name } of FACTS.tools) {
        const shown = tools.some(
          (tool) => tool === name || tool.startsWith(`${name}(`) || tool.startsWith("/dev/f"),
        );
        const onFs = ["Read", "Write", "Grep"].includes(name);
        if (tools.some((tool) => tool.startsWith("/dev/f"))) expect(permissions.showsTool(name)).toBe(onFs);
        else expect(permissions.showsTool(name)).toBe(shown);
      }
    });
  }

  test("an unknown tool is not shown", () => expect(of(["*"]).showsTool("Nope")).toBe(false));
});

describe("saved and restored as one unit", () => {
  const all = of(["Read", "Bash(git *)", "/dev/fs/src/**"], ["Bash(rm *)"]).child(
    ["*", "mcp__x__*"],
    ["Write"],
  );

  test("the record is complete", () => {
    expect(all.record()).toEqual({
      allow: [
        ["*", "mcp__x__*"],
        ["Read", "Bash(git *)", "/dev/fs/src/**"],
      ],
      deny: ["Write"],
      deny_above: ["Bash(rm *)"],
    });
    expect(of(["*"]).record()).toEqual({ allow: [["*"]], deny: [] });
  });

  test("a restored one decides as the saved one did", () => {
    const saved = JSON.stringify(all.record());
    const restored = Permissions.from(JSON.parse(saved), FACTS);
    expect(JSON.stringify(restored.record())).toBe(saved);
    for (const text of CALLS) {
      expect(restored.covers(call(text))).toBe(all.covers(call(text)));
    }
  });

  test("a rule for a removed tool covers nothing, and the record stays readable", () => {
    const restored = Permissions.from({ allow: [["Gone", "Read"]], deny: ["Lost(x)"] }, FACTS);
    expect(restored.allowedTools()).toEqual(["Read"]);
    expect(restored.covers({ tool: "Gone", path: "/dev/gone" })).toBe(false);
    expect(restored.covers({ tool: "Lost", path: "/dev/lost", subject: "y" })).toBe(false);
  });
});

const CALLS = [
  ...[
    "Read(a)",
    "Read(src/a)",
    "Read(../a)",
    "Read",
    "Read(secret/a)",
    "Write(src/a)",
    "Write(a)",
    "Grep(.)",
    "Grep",
  ],
  ...[
    "Bash(git log)",
    "Bash(git log; rm x)",
    "Bash(rm x)",
    "Bash(git $(rm x))",
    "Bash(FOO=x git)",
    "Bash($x)",
  ],
  ...["Bash(git log > x)", "Complete", "mcp__x__get", "mcp__x__put", "mcp__y__get", "mcp__z__get"],
  ...[
    "/dev/fs",
    "/dev/fs/src/a",
    "/dev/fs/a/../src",
    "/dev/shell",
    "/proc/1/status",
    "/dev/llm/openai",
    "/dev/none",
  ],
];
const RULES = [
  ...[
    "*",
    "Read",
    "Write",
    "Grep",
    "Bash",
    "Complete",
    "mcp__x__*",
    "mcp__*",
    "*__get",
    "Read(src/**)",
    "Read(**)",
  ],
  ...[
    "Write(*)",
    "Read(secret/**)",
    "Bash(git *)",
    "Bash(rm *)",
    "Bash(*)",
    "Bash(git log)",
    "/dev/fs",
    "/dev/**",
  ],
  ...["/dev/fs/src/**", "/dev/shell", "/proc", "/proc/*/status", "/mnt/mcp/x", "/dev/fs/**"],
];

test("a child never covers a call that its parent does not", () => {
  const random = seeded(42);
  const pick = (most: number): string[] =>
    Array.from({ length: random(most + 1) }, () => RULES[random(RULES.length)] ?? "*");
  let covered = 0;
  for (let round = 0; round < 600; round++) {
    let parent = of(pick(4), pick(2));
    for (let depth = 0; depth < 4; depth++) {
      const child = parent.child(pick(4), pick(1));
      const restored = Permissions.from(child.record(), FACTS);
      for (const text of CALLS) {
        const holds = child.covers(call(text));
        if (holds) covered++;
        if (holds && !parent.covers(call(text))) {
          throw new Error(`${text}: ${JSON.stringify(parent.record())} -> ${JSON.stringify(child.record())}`);
        }
        if (restored.covers(call(text)) !== holds)
          throw new Error(`${text}: ${JSON.stringify(child.record())}`);
        const { tool } = call(text);
        if (holds && tool !== null && FACTS.tools.some(({ name }) => name === tool)) {
          if (!child.showsTool(tool)) throw new Error(`${text} hidden: ${JSON.stringify(child.record())}`);
        }
      }
      parent = child;
    }
  }
  expect(covered).toBeGreaterThan(1_000);
});

function seeded(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function codeAndMessage(attempt: () => unknown): { code: string; message: string } | undefined {
  try {
    attempt();
    return undefined;
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    return { code: error.code, message: error.message };
  }
}
