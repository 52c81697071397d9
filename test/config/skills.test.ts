import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { checkSkills, loadSkill, loadSkills } from "../../src/config/skills/skills.ts";
import { trustAll } from "../../src/config/trust/trust.ts";
import { failure, Sandbox } from "./sandbox.ts";

const ROOTS = [
  "home/work/skills",
  "home/work/.rnix/skills",
  "home/work/.agents/skills",
  "home/work/.claude/skills",
  "home/.config/rnix/skills",
  "home/.agents/skills",
  "home/.claude/skills",
];

function skill(box: Sandbox, root: string, name: string, front = "", body = "Do it."): string {
  const text = `---\nname: ${name}\ndescription: from ${root}\n${front}---\n\n${body}\n`;
  return box.write(`${root}/${name}/SKILL.md`, text);
}

describe("a skill", () => {
  test("is the nearest of its name, over all eight sources", async () => {
    using box = new Sandbox();
    box.skills.push({ path: "a/SKILL.md", text: "---\nname: a\ndescription: embedded\n---\nBody.\n" });
    for (const root of [...ROOTS].reverse()) {
      skill(box, root, "a");
      expect((await loadSkill("a", box.trusted())).description).toBe(`from ${root}`);
    }
    const { skills, shadowed } = await loadSkills(box.trusted());
    const path = (root: string) => join(box.dir, root, "a/SKILL.md");
    expect(skills.map(({ source }) => source)).toEqual([path(ROOTS[0] ?? "")]);
    const hidden = [...ROOTS.slice(1).map(path), "embedded"];
    expect(shadowed).toEqual(hidden.map((file) => ({ name: "a", path: file, by: path(ROOTS[0] ?? "") })));
  });

  test("has its folder, its body without the front matter, and the tools its author lists", async () => {
    using box = new Sandbox();
    skill(box, ROOTS[0] ?? "", "a", "allowed-tools: Read Bash(git log *), Grep\n", "# Title\n\n---\n\nText.");
    const loaded = await loadSkill("a", box.sources());
    expect(loaded.dir).toBe(join(box.projectDir, "skills/a"));
    expect(loaded.allowedTools).toEqual(["Read", "Bash(git log *)", "Grep"]);
    expect(await loaded.body()).toBe("# Title\n\n---\n\nText.");
    expect(loaded.warnings).toEqual([]);
  });

  test("that is embedded has no folder, and one that lists no tools narrows nothing", async () => {
    using box = new Sandbox();
    box.skills.push({ path: "a/SKILL.md", text: "---\nname: a\ndescription: d\n---\nBody.\n" });
    expect(await loadSkill("a", box.sources())).toMatchObject({
      dir: "",
      source: "embedded",
      allowedTools: null,
    });
  });

  test("of other programs is accepted: a list of tools, foreign keys, CRLF", async () => {
    using box = new Sandbox();
    const text =
      "---\r\nname: a\r\ndescription: d\r\nallowed-tools:\r\n  - Read\r\n  - Grep\r\nversion: 2\r\n---\r\nBody.\r\n";
    box.write("home/.claude/skills/a/SKILL.md", text);
    expect(await loadSkill("a", box.sources())).toMatchObject({
      allowedTools: ["Read", "Grep"],
      warnings: [],
    });
  });

  test("is loaded with a warning when its name is another, or too long", async () => {
    using box = new Sandbox();
    const long = "x".repeat(65);
    const file = box.write("home/work/skills/a/SKILL.md", `---\ndescription: d\nname: ${long}\n---\nBody.\n`);
    const { name, warnings } = await loadSkill("a", box.sources());
    expect(name).toBe("a");
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toStartWith(`${file}:3:7: `);
  });

  test("that does not exist is NOT_FOUND with the nearest name", async () => {
    using box = new Sandbox();
    skill(box, ROOTS[4] ?? "", "testing");
    const error = await failure(() => loadSkill("tesing", box.sources()));
    expect(error.code).toBe("NOT_FOUND");
    expect(error.message).toContain('Did you mean "testing"?');
    expect((await failure(() => loadSkill("../skills/testing", box.sources()))).code).toBe("NOT_FOUND");
  });

  test("that is broken is skipped for a farther one, and INVALID when it is the only one", async () => {
    using box = new Sandbox();
    const file = box.write("home/work/skills/a/SKILL.md", "---\nname: a\n---\nBody.\n");
    expect((await failure(() => loadSkill("a", box.sources()))).message).toStartWith(
      `${file}:2:1: description: `,
    );
    skill(box, ROOTS[6] ?? "", "a");
    expect((await loadSkill("a", box.sources())).tier).toBe("user");
  });
});

describe("the list of skills", () => {
  test("has all that can be read, and what is wrong with the others", async () => {
    using box = new Sandbox();
    skill(box, ROOTS[0] ?? "", "good");
    const bad = box.write("home/work/skills/bad/SKILL.md", "---\nname: bad\ndescription: [\n---\n");
    const bare = box.write("home/work/skills/bare/SKILL.md", "# No front matter\n");
    box.write("home/work/skills/README.md", "not a skill");
    box.folder("home/work/skills/empty");
    const { skills, problems } = await loadSkills(box.sources());
    expect(skills.map(({ name }) => name)).toEqual(["good"]);
    expect(problems.map(({ path }) => path)).toEqual([bad, bare]);
    expect(problems[1]?.message).toStartWith(`${bare}:1:1: `);
  });

  test("leaves out a project's skill that brings scripts, until it is trusted", async () => {
    using box = new Sandbox();
    const file = skill(box, ROOTS[0] ?? "", "rel");
    box.write("home/work/skills/rel/scripts/deep/go.sh", "echo go\n");
    const own = skill(box, ROOTS[4] ?? "", "mine");
    box.write("home/.config/rnix/skills/mine/scripts/go.sh", "echo go\n");
    const untrusted = await loadSkills(box.sources());
    expect(untrusted.skills.map(({ source }) => source)).toEqual([own]);
    expect(untrusted.withheld).toEqual([file]);
    expect((await failure(() => loadSkill("rel", box.sources()))).code).toBe("PERMISSION");
    const trusted = await loadSkills({ ...box.sources(), trust: trustAll });
    expect(trusted.skills.map(({ name }) => name)).toEqual(["mine", "rel"]);
  });

  test("refuses a project's link to outside, and follows the user's own", async () => {
    using box = new Sandbox();
    box.folder("home/work/skills");
    box.folder("home/.claude/skills");
    skill(box, "home/elsewhere", "out");
    symlinkSync(join(box.home, "elsewhere/out"), join(box.projectDir, "skills/out"));
    const { skills, problems } = await loadSkills(box.sources());
    expect(skills).toEqual([]);
    expect(problems[0]?.message).toContain("inside the project");
    symlinkSync(join(box.home, "elsewhere/out"), join(box.home, ".claude/skills/out"));
    expect((await loadSkills(box.sources())).skills.map(({ tier }) => tier)).toEqual(["user"]);
  });

  test("continues without a folder that cannot be listed", async () => {
    using box = new Sandbox();
    skill(box, ROOTS[0] ?? "", "good");
    const closed = join(box.folder("home/.claude"), "skills");
    symlinkSync("skills", closed);
    const { skills, problems } = await loadSkills(box.sources());
    expect(skills.map(({ name }) => name)).toEqual(["good"]);
    expect(problems.map(({ path }) => path)).toEqual([closed]);
  });
});

describe("rnix skills check holds a skill to the letter of the format", () => {
  test.each([
    ["an upper-case name", "name: Abc\ndescription: d\n", "2:7", "lowercase"],
    ["a double hyphen", "name: a--b\ndescription: d\n", "2:7", "hyphens"],
    ["another name than the folder's", "name: other\ndescription: d\n", "2:7", 'folder\'s name "abc"'],
    ["no description", "name: abc\n", "2:1", "description"],
    ["a description too long", `name: abc\ndescription: ${"x".repeat(1025)}\n`, "3:14", "1024"],
    [
      "compatibility too long",
      `name: abc\ndescription: d\ncompatibility: ${"x".repeat(501)}\n`,
      "4:16",
      "500",
    ],
    ["metadata that is no text", "name: abc\ndescription: d\nmetadata: { a: 1 }\n", "4:16", "metadata.a"],
    ["tools that are no names", "name: abc\ndescription: d\nallowed-tools: 3\n", "4:16", "or a list"],
    [
      "an unknown key",
      "name: abc\ndescription: d\nallowed_tools: Read\n",
      "4:1",
      'did you mean "allowed-tools"?',
    ],
  ])("%s", async (_, front, position, words) => {
    using box = new Sandbox();
    const file = box.write("s/abc/SKILL.md", `---\n${front}---\nBody.\n`);
    const { problems } = await checkSkills(join(box.dir, "s"));
    expect(problems).toHaveLength(1);
    expect(problems[0]?.message).toStartWith(`${file}:${position}: `);
    expect(problems[0]?.message).toContain(words);
  });

  test("and finds nothing wrong with a right one, alone or in a folder of several", async () => {
    using box = new Sandbox();
    const front = "license: MIT\ncompatibility: any\nmetadata: { author: me }\nallowed-tools: Read Grep\n";
    const file = skill(box, "s", "abc", front);
    const other = skill(box, "s", "b", "", "");
    expect(await checkSkills(join(box.dir, "s/abc"))).toEqual({
      checked: [file],
      problems: [],
      warnings: [],
    });
    const both = await checkSkills(join(box.dir, "s"));
    expect(both.checked).toEqual([file, other]);
    expect(both.problems).toEqual([]);
    expect(both.warnings.map(({ path }) => path)).toEqual([other]);
  });

  test.each([
    ["model", "sonnet"],
    ["disallowed-tools", "Bash"],
    ["argument-hint", '"[file]"'],
    ["disable-model-invocation", "true"],
    ["some-key", "{ of: [another, product] }"],
  ])("but for the key %s of another product, which is a warning", async (key, value) => {
    using box = new Sandbox();
    const file = skill(box, "home/work/skills", "abc", `${key}: ${value}\n`);
    const message = expect.stringContaining(`${file}:4:1: the key "${key}" is not part of the format`);
    expect(await checkSkills(join(box.projectDir, "skills"))).toEqual({
      checked: [file],
      problems: [],
      warnings: [{ path: file, message }],
    });
    expect((await loadSkill("abc", box.trusted())).warnings).toEqual([]);
  });
  test("and a message says that there is none", async () => {
    using box = new Sandbox();
    expect((await failure(() => checkSkills(box.dir))).message).toContain("SKILL.md");
  });
});
