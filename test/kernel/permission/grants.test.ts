import { describe, expect, test } from "bun:test";
import { contains } from "../../../src/kernel/permission/containment.ts";
import { type Call, type Facts, Permissions } from "../../../src/kernel/permission/permissions.ts";
import { parseRule } from "../../../src/kernel/permission/rule.ts";
import { seeded } from "../../support/seeded.ts";

const FACTS: Facts = {
  tools: [
    { name: "Read", subject: "path", path: "/dev/fs", readOnly: true },
    { name: "Write", subject: "path", path: "/dev/fs" },
    { name: "Bash", subject: "command", path: "/dev/shell" },
    { name: "Complete", path: "/dev/kernel/complete" },
    { name: "mcp__x__get", path: "/mnt/mcp/x" },
    { name: "mcp__x__put", path: "/mnt/mcp/x" },
  ],
  devices: ["/dev/fs", "/dev/shell", "/dev/kernel/complete", "/mnt/mcp/x", "/proc"],
  projectDir: "/p",
  cwd: "/p",
  realPath: (path) => path,
};

/** Rules of every kind that overlap in many ways, and the calls that tell them apart. */
const RULES = [
  ...["*", "Read", "Write", "Bash", "Complete", "mcp__x__get", "mcp__x__*", "mcp__*", "*ead"],
  ...["Read(src/**)", "Read(src/*.ts)", "Read(src/a.ts)", "Read(**)", "Read(/p/src/**)", "Write(src/**)"],
  ...["Bash(git *)", "Bash(git log *)", "Bash(git log)", "Bash(git:*)", "Bash(g*)", "Bash(* log)", "Bash(*)"],
  ...[
    "/dev/fs",
    "/dev/fs/src",
    "/dev/fs/src/**",
    "/dev/fs/**",
    "/dev/**",
    "/dev/shell",
    "/mnt/mcp/x",
    "/proc/*/status",
  ],
];
const CALLS: Call[] = [
  ...["src/a.ts", "src/b/c.ts", "src", "README.md", "/etc/passwd", "../x"].flatMap((subject) =>
    ["Read", "Write"].map((tool) => ({ tool, path: "/dev/fs", subject })),
  ),
  ...[
    "git log",
    "git log -1",
    "git",
    "git push --force",
    "gh log",
    "ls | git log",
    "rm -rf /",
    "git log > x",
  ].map((subject) => ({ tool: "Bash", path: "/dev/shell", subject })),
  { tool: "Complete", path: "/dev/kernel/complete" },
  { tool: "mcp__x__get", path: "/mnt/mcp/x" },
  { tool: "mcp__x__put", path: "/mnt/mcp/x" },
  ...[
    "/dev/fs",
    "/dev/fs/src",
    "/dev/fs/src/a.ts",
    "/dev/fs/x",
    "/dev/shell",
    "/mnt/mcp/x",
    "/proc/1/status",
  ].map((path) => ({ tool: null, path })),
];

function of(allow: string[], deny: string[] = []): Permissions {
  return Permissions.of({ ...FACTS, allow, deny });
}

function granted(rights: Permissions, rules: string[], by: string | null = null, lift = false): Permissions {
  return rights.grant(rights.rules(rules), by, { lift });
}

function revoked(rights: Permissions, rules: string[], by: string | null = null): Permissions {
  return rights.revoke(rights.rules(rules), by);
}

const covered = (rights: Permissions): boolean[] => CALLS.map((call) => rights.covers(call));
const bash = (subject: string): Call => ({ tool: "Bash", path: "/dev/shell", subject });
const read = (subject: string): Call => ({ tool: "Read", path: "/dev/fs", subject });

describe("a rule is covered by another", () => {
  test.each([
    ["*", "*", true],
    ["*", "/dev/fs", true],
    ["Read", "*", false],
    ["Read", "Read(src/**)", true],
    ["Read(src/**)", "Read", false],
    ["Read(src/**)", "Read(src/a.ts)", true],
    ["Read(src/**)", "Read(src/x/*.ts)", true],
    ["Read(src/*)", "Read(src/**)", false],
    ["Read(src/**)", "Write(src/a)", false],
    ["Read(/p/src/**)", "Read(src/a)", false],
    ["Bash(git *)", "Bash(git log *)", true],
    ["Bash(git *)", "Bash(git:*)", false],
    ["Bash(git:*)", "Bash(git log)", true],
    ["Bash(git log)", "Bash(git *)", false],
    ["Bash(g?t *)", "Bash(g* *)", false],
    ["Bash(*)", "Bash(git *)", true],
    ["mcp__*", "mcp__x__*", true],
    ["mcp__x__*", "mcp__x__get", true],
    ["mcp__x__get", "mcp__x__*", false],
    ["/mnt/mcp/x", "mcp__x__*", true],
    ["/dev/fs", "Read", true],
    ["/dev/fs/src", "Read", false],
    ["/dev/fs", "/dev/fs/src/**", true],
    ["/dev/**", "/dev/fs", true],
    ["/dev/*", "/dev/fs", false],
    ["/dev/fs/src/**", "/dev/fs/**", false],
    ["Read", "/dev/fs", false],
  ])("%s covers %s: %p", (outer, inner, holds) => {
    expect(contains(parseRule(outer), parseRule(inner), FACTS)).toBe(holds);
  });

  test("only when it covers every call that the other covers", () => {
    for (const outer of RULES) {
      for (const inner of RULES.filter((rule) => contains(parseRule(outer), parseRule(rule), FACTS))) {
        for (const call of CALLS.filter((one) => of([inner]).covers(one))) {
          const text = `${outer} holds ${inner}, and covers ${JSON.stringify(call)}`;
          expect(of([outer]).covers(call) ? text : `not: ${text}`).toBe(text);
        }
      }
    }
  });
});

describe("a grant", () => {
  test("adds to the process's own list, once, and nothing that it has already", () => {
    const rights = granted(granted(of(["Read"]), ["Bash(git *)", "Read(src/**)"]), ["Bash(git log)"]);
    expect(rights.record()).toEqual({ allow: [["Read", "Bash(git *)"]], deny: [] });
    expect(rights.covers(bash("git push"))).toBe(true);
  });

  test.each(["Bsh", "/dev/sh", "Bash(", "mcp__y__get", ""])(
    "of %j, which is not there, is INVALID",
    (rule) => {
      expect(() => granted(of(["Read"]), [rule])).toThrow(expect.objectContaining({ code: "INVALID" }));
    },
  );

  test("never exceeds the ancestors' rights", () => {
    const parent = of(["Read(src/**)"], ["Bash"]);
    const child = granted(parent.child(["Read"], []), ["*"]);
    expect(covered(child)).toEqual(covered(parent));
    expect(child.lacks(parseRule("Bash"))).toContain("the deny rule Bash forbids it");
    expect(child.lacks(parseRule("Read"))).toContain("Read(src/**)");
    expect(child.lacks(parseRule("Read(src/a.ts)"))).toBeNull();
  });

  test("to a process whose ancestors have ended widens what they had, too", () => {
    const orphan = of(["Read"], ["Write"]).child(["*"], []);
    const rights = granted(orphan, ["Bash", "Write"], null, true);
    expect(rights.covers(bash("ls"))).toBe(true);
    expect(rights.covers({ tool: "Write", path: "/dev/fs", subject: "a" })).toBe(true);
    expect(rights.covers({ tool: "Complete", path: "/dev/kernel/complete" })).toBe(false);
  });

  test("is refused when it would exceed the list's limit", () => {
    const many = Array.from({ length: 1_001 }, (_, i) => `Bash(git ${i})`);
    expect(() => granted(of(["Read"]), many)).toThrow(expect.objectContaining({ code: "EXHAUSTED" }));
    expect(() => revoked(of(["Read"]), many)).toThrow(expect.objectContaining({ code: "EXHAUSTED" }));
  });
});

describe("a revoke", () => {
  test("applies to all descendants, also to existing ones", () => {
    const parent = revoked(of(["*"]), ["Bash"]);
    const child = of(["*"]).child(["*"], []).within(parent);
    expect(child.covers(bash("ls"))).toBe(false);
    expect(child.showsTool("Bash")).toBe(false);
    expect(child.deniedTools()).toEqual(["Bash"]);
  });

  test("of a part leaves the rest allowed", () => {
    const rights = revoked(of(["*"]), ["Bash(git push *)", "Read(secret/**)"]);
    expect(rights.covers(bash("git log"))).toBe(true);
    expect(rights.covers(bash("git log; git push -f"))).toBe(false);
    expect(rights.covers(read("secret/key"))).toBe(false);
    expect(rights.covers(read("src/a"))).toBe(true);
  });

  test("is undone by a grant of the same rule, and by no other", () => {
    const rights = revoked(of(["*"]), ["Bash"]);
    expect(granted(rights, ["*"]).covers(bash("ls"))).toBe(false);
    expect(granted(rights, ["Bash(git *)"]).covers(bash("git log"))).toBe(false);
    expect(covered(granted(rights, ["Bash"]))).toEqual(covered(of(["*"])));
    const own = of(["Bash(git *)"]);
    expect(covered(granted(revoked(own, ["Bash(git *)"]), ["Bash(git *)"]))).toEqual(covered(own));
  });

  test("and a deny rule of the spawn are undone by PID 0", () => {
    expect(granted(of(["*"], ["Bash"]), ["Bash"]).covers(bash("ls"))).toBe(true);
  });

  /** Who revoked, who grants, whether that takes it back. */
  test.each([
    [null, null, true],
    [null, "a", false],
    ["a", "a", true],
    ["a", null, true],
    ["a", "b", false],
  ])("by %p is taken back by %p: %p", (who, by, takenBack) => {
    const rights = granted(revoked(of(["*"]), ["Bash"], who), ["Bash"], by);
    expect(rights.covers(bash("ls"))).toBe(takenBack);
  });

  test("by PID 0 is separate from a process's grant, and outlives it", () => {
    const both = revoked(revoked(of(["*"]), ["Bash"], "a"), ["Bash"]);
    expect(granted(both, ["Bash"], "a").covers(bash("ls"))).toBe(false);
    expect(granted(both, ["Bash"]).covers(bash("ls"))).toBe(true);
    expect(revoked(both, ["Bash"]).record()).toEqual(both.record());
  });

  test("of an ancestor remains, whatever is granted below", () => {
    const child = of(["*"], ["Bash"]).child(["*"], []);
    expect(granted(child, ["Bash"]).covers(bash("ls"))).toBe(false);
  });
});

test("names the rule that covers a call, or why none does", () => {
  expect(of(["Read", "Bash(git *)", "Bash(ls)"]).decide(bash("ls && git log"))).toEqual({
    rule: "Bash(git *), Bash(ls)",
  });
  expect(of(["*"]).child(["Read"], []).decide(read("a"))).toEqual({ rule: "Read" });
  expect(of(["Read(src/**)"]).child(["Read"], []).decide(read("a"))).toEqual({
    refusal: "Only Read(src/**) is allowed.",
  });
  expect(of(["*"], ["/dev/fs"]).decide(read("a"))).toEqual({ refusal: "The deny rule /dev/fs forbids it." });
});

test("after random grants and revokes no child has more than its parent, and the record is complete", () => {
  for (let seed = 1; seed <= 60; seed++) {
    const random = seeded(seed);
    const upTo = (end: number): number => Math.floor(random() * end);
    const some = (): string[] => Array.from({ length: 1 + upTo(2) }, () => RULES[upTo(RULES.length)] ?? "*");
    /** Parents before children. */
    const tree: { parent: number; rights: Permissions }[] = [{ parent: -1, rights: of(["*"]) }];
    for (let turn = 0; turn < 25; turn++) {
      const at = upTo(tree.length);
      const node = tree[at];
      if (!node) throw new Error(`no node ${at}`);
      const by = [null, null, "a", "b"][upTo(4)] ?? null;
      const what = random();
      if (what < 0.3 && tree.length < 8) tree.push({ parent: at, rights: node.rights.child(some(), some()) });
      else if (what < 0.6) node.rights = granted(node.rights, some(), by);
      else node.rights = revoked(node.rights, some(), by);
      for (const one of tree) {
        const above = tree[one.parent];
        if (!above) continue;
        one.rights = one.rights.within(above.rights);
        for (const call of CALLS.filter((call) => one.rights.covers(call))) {
          const text = `seed ${seed}, turn ${turn}: ${JSON.stringify(call)}`;
          expect(above.rights.covers(call) ? text : `${text} is the child's alone`).toBe(text);
        }
      }
      const saved: unknown = JSON.parse(JSON.stringify(node.rights.record()));
      const restored = Permissions.from(node.rights.record(), FACTS);
      expect(JSON.parse(JSON.stringify(restored.record()))).toEqual(saved);
      expect(covered(restored)).toEqual(covered(node.rights));
    }
  }
});
