import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { checkSkills, loadSkill } from "../../src/config/skills/skills.ts";
import { failure, Sandbox } from "./sandbox.ts";

/**
 * The examples and limits of the Agent Skills specification (agentskills.io/specification), each as the front matter of a
 * skill in the folder of its name.
 */
const LONG = "x".repeat(1024);

/** The problems of a strict check; the skill is read as well if there is none. */
async function check(front: string, body = "", folder = /^name: "?([^\s"]+)/m.exec(front)?.[1] ?? "skill") {
  using box = new Sandbox();
  const file = box.write(`home/work/skills/${folder}/SKILL.md`, `---\n${front}\n---\n${body}`);
  const { problems, warnings } = await checkSkills(dirname(file));
  const loaded = problems.length === 0 ? await loadSkill(basename(dirname(file)), box.sources()) : undefined;
  return { problems: problems.map(({ message }) => message), warnings, loaded };
}

describe("the specification of Agent Skills", () => {
  test.each<[string, string]>([
    [
      "the minimal example",
      "name: skill-name\ndescription: A description of what this skill does and when to use it.",
    ],
    [
      "the example with optional fields",
      'name: pdf-processing\ndescription: Extract PDF text, fill forms, merge files. Use when handling PDFs.\nlicense: Apache-2.0\nmetadata:\n  author: example-org\n  version: "1.0"',
    ],
    ["the name data-analysis", "name: data-analysis\ndescription: d"],
    ["the name code-review", "name: code-review\ndescription: d"],
    ["a name of one letter", "name: a\ndescription: d"],
    ["a name of 64 characters", `name: ${"a".repeat(64)}\ndescription: d`],
    ["a name with digits", 'name: "2fa-setup"\ndescription: d'],
    ["a name of lowercase letters of another script", "name: größe-prüfen\ndescription: d"],
    ["a name of a script without case", "name: 技能\ndescription: d"],
    ["a description of 1024 characters", `name: a\ndescription: ${LONG}`],
    ["the poor description, which is valid", "name: a\ndescription: Helps with PDFs."],
    [
      "the license of a bundled file",
      "name: a\ndescription: d\nlicense: Proprietary. LICENSE.txt has complete terms",
    ],
    [
      "the compatibility with a product",
      "name: a\ndescription: d\ncompatibility: Designed for Claude Code (or similar products)",
    ],
    [
      "the compatibility with packages",
      "name: a\ndescription: d\ncompatibility: Requires git, docker, jq, and access to the internet",
    ],
    ["the compatibility with Python", "name: a\ndescription: d\ncompatibility: Requires Python 3.14+ and uv"],
    ["a compatibility of 500 characters", `name: a\ndescription: d\ncompatibility: ${"x".repeat(500)}`],
    ["allowed-tools as a text", "name: a\ndescription: d\nallowed-tools: Bash(git:*) Bash(jq:*) Read"],
    [
      "allowed-tools as a list",
      "name: a\ndescription: d\nallowed-tools:\n  - Bash(git:*)\n  - Bash(jq:*)\n  - Read",
    ],
  ])("accepts %s", async (_title, front) => {
    const { problems, loaded } = await check(front, "# Steps\n");
    expect(problems).toEqual([]);
    expect(loaded?.description).not.toBe("");
    if (front.includes("allowed-tools"))
      expect(loaded?.allowedTools).toEqual(["Bash(git *)", "Bash(jq *)", "Read"]);
  });

  test.each<[string, string, string?]>([
    ["an uppercase name", "name: PDF-Processing\ndescription: d"],
    ["a name that begins with a hyphen", "name: -pdf\ndescription: d"],
    ["a name that ends with a hyphen", "name: pdf-\ndescription: d"],
    ["consecutive hyphens", "name: pdf--processing\ndescription: d"],
    ["a name of 65 characters", `name: ${"a".repeat(65)}\ndescription: d`],
    ["a name with an underscore", "name: pdf_processing\ndescription: d"],
    ["another name than the folder's", "name: pdf\ndescription: d", "other"],
    ["no name", "description: d"],
    ["no description", "name: a"],
    ["an empty description", 'name: a\ndescription: ""'],
    ["a description of 1025 characters", `name: a\ndescription: ${LONG}x`],
    ["a compatibility of 501 characters", `name: a\ndescription: d\ncompatibility: ${"x".repeat(501)}`],
    ["an empty compatibility", 'name: a\ndescription: d\ncompatibility: ""'],
    ["metadata that is no mapping", "name: a\ndescription: d\nmetadata: [a]"],
    ["allowed-tools that are no names", "name: a\ndescription: d\nallowed-tools: { a: 1 }"],
  ])("refuses %s", async (_title, front, folder) => {
    const { problems } = await check(front, "Do it.\n", folder);
    expect(problems).toHaveLength(1);
  });

  test("needs no instructions, but warns of it", async () => {
    const { problems, warnings } = await check("name: skill-name\ndescription: d");
    expect(problems).toEqual([]);
    expect(warnings.map(({ message }) => message)).toEqual([expect.stringContaining("no instructions")]);
  });
});

describe("the files of a skill", () => {
  function skill(box: Sandbox): string {
    const file = box.write(
      "home/.config/rnix/skills/pdf/SKILL.md",
      "---\nname: pdf\ndescription: d\n---\nSee [the reference guide](references/REFERENCE.md).\n",
    );
    const dir = dirname(file);
    for (const path of ["references/REFERENCE.md", "scripts/extract.py", "assets/a b.txt", "LICENSE.txt"])
      box.write(`home/.config/rnix/skills/pdf/${path}`, `content of ${path}\n`);
    for (const path of [".hidden", "node_modules/x/index.js", "assets/.git/config"])
      box.write(`home/.config/rnix/skills/pdf/${path}`, "");
    return dir;
  }

  test("are listed, and read by the path from the skill's folder, as the specification writes it", async () => {
    using box = new Sandbox();
    skill(box);
    const loaded = await loadSkill("pdf", box.sources());
    expect(await loaded.files?.()).toEqual([
      "LICENSE.txt",
      "assets/a b.txt",
      "references/REFERENCE.md",
      "scripts/extract.py",
    ]);
    expect(await loaded.file?.("references/REFERENCE.md")).toBe("content of references/REFERENCE.md\n");
    expect(await loaded.file?.("./scripts/extract.py")).toBe("content of scripts/extract.py\n");
  });

  test("are only its own: no path, no link and no hidden file leads out of the folder", async () => {
    using box = new Sandbox();
    const dir = skill(box);
    box.write("home/secret.txt", "secret");
    symlinkSync(join(box.home, "secret.txt"), join(dir, "link.txt"));
    symlinkSync(box.home, join(dir, "home"));
    const loaded = await loadSkill("pdf", box.sources());
    for (const path of [
      "../../../../secret.txt",
      "link.txt",
      "home/secret.txt",
      "/etc/passwd",
      ".hidden",
      "SKILL.md",
      "",
    ]) {
      const error = await failure(() => loaded.file?.(path) ?? Promise.resolve(""));
      expect(error.code).toBe("NOT_FOUND");
      expect(error.message).not.toContain("secret\n");
    }
    expect(
      (await failure(() => loaded.file?.("references/REFERENC.md") ?? Promise.resolve(""))).message,
    ).toContain("references/REFERENCE.md");
  });

  test("that are no text are named with the way to use them", async () => {
    using box = new Sandbox();
    const dir = skill(box);
    await Bun.write(join(dir, "assets/logo.png"), new Uint8Array([0x89, 0x50, 0xff, 0]));
    const loaded = await loadSkill("pdf", box.sources());
    const error = await failure(() => loaded.file?.("assets/logo.png") ?? Promise.resolve(""));
    expect(error).toMatchObject({ code: "INVALID" });
    expect(error.message).toContain(join(dir, "assets/logo.png"));
  });
});
