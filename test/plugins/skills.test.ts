import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import plugin from "../../plugins/skills/index.ts";
import { readSkillFile, requireVisible } from "../../plugins/skills/manage.ts";
import { checkSkills } from "../../src/config/skills/skills.ts";
import { O_RDWR, SyscallError } from "../../src/plugin/index.ts";
import { PluginStore } from "../../src/store/plugin-store.ts";
import { testContext } from "../support/conformance/context.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { exchange } from "../support/conformance/vfs-file.ts";
import { codeOf } from "../support/failure.ts";
import { Folder } from "../support/folder.ts";

const DEVICE = "/dev/skills/manage";
const CREATE = { op: "SkillManage", action: "create", name: "notes", description: "Notes.", body: "# Do" };

function storeIn(dir: string): PluginStore {
  return new PluginStore({ plugin: "skills", run: join(dir, "run"), project: dir, user: join(dir, "user") });
}

describePlugin("skills", () => import("../../plugins/skills/index.ts"), {
  setup: (dir) => ({ store: storeIn(dir) }),
  operations: [
    {
      title: "writes a skill, which waits",
      device: DEVICE,
      input: CREATE,
      answer: (text) => expect(text).toContain("waits until the user has trusted it"),
    },
    { title: "does not write over one", device: DEVICE, input: CREATE, error: "INVALID" },
    {
      title: "changes a part of it",
      device: DEVICE,
      input: { action: "patch", name: "notes", body: "# Do more" },
      answer: (_text, dir) => {
        const file = readFileSync(join(dir, "skills/notes/SKILL.md"), "utf8");
        expect(readSkillFile(file)).toEqual({ description: "Notes.", allowed_tools: "", body: "# Do more" });
        expect(file).toContain('metadata:\n  agent: "test"\n  run: "test-process"\n');
      },
    },
    {
      title: "refuses an empty patch",
      device: DEVICE,
      input: { action: "patch", name: "notes" },
      error: "INVALID",
    },
    {
      title: "deletes it",
      device: DEVICE,
      input: { action: "delete", name: "notes" },
      answer: (_text, dir) => expect(existsSync(join(dir, "skills/notes"))).toBe(false),
    },
    {
      title: "knows it no more",
      device: DEVICE,
      input: { action: "delete", name: "notes" },
      error: "NOT_FOUND",
    },
    {
      title: "writes it again",
      device: DEVICE,
      input: CREATE,
      answer: (text) => expect(text).toContain("notes"),
    },
    ...["../out", "Notes", "a--b", "-a", "", "x".repeat(65), "a/b"].map((name) => ({
      title: `refuses the name ${JSON.stringify(name.slice(0, 10))}`,
      device: DEVICE,
      input: { ...CREATE, name },
      error: "INVALID" as const,
    })),
    ...[
      { description: "" },
      { body: " " },
      { description: "a\nb" },
      { body: "x".repeat(65_537) },
      { body: 1 },
    ].map((more) => ({
      title: `refuses ${JSON.stringify(more).slice(0, 30)}`,
      device: DEVICE,
      input: { ...CREATE, name: "other", ...more },
      error: "INVALID" as const,
    })),
    {
      title: "names an invisible character and its line",
      device: DEVICE,
      input: { ...CREATE, name: "other", body: "# Do\nthis\u200bthat" },
      error: "INVALID",
    },
  ],
});

describe("what SkillManage writes", () => {
  async function manage(dir: string, input: object): Promise<void> {
    const { context } = testContext(dir, { store: storeIn(dir) });
    const file = await plugin.devices[DEVICE].factory("", O_RDWR, context);
    await exchange(file, JSON.stringify(input));
  }

  test("is a skill by the strict check, whatever its text", async () => {
    using folder = new Folder();
    const description = 'Quotes " and : colons # and --- and {braces}, größer 日本語 👩‍💻.';
    const body = "---\nname: other\n---\n# Title\n\nText: `x`";
    const allowed_tools = "Read Bash(git *)";
    await manage(folder.dir, { action: "create", name: "odd", description, allowed_tools, body });
    const { problems, warnings } = await checkSkills(folder.path("skills/odd"));
    expect({ problems, warnings }).toEqual({ problems: [], warnings: [] });
    expect(readSkillFile(folder.text("skills/odd/SKILL.md"))).toEqual({ description, allowed_tools, body });
  });

  test("are at most 100 skills of a project", async () => {
    using folder = new Folder();
    const names = Array.from({ length: 100 }, (_, n) => `s-${n}`);
    await storeIn(folder.dir).replace("project", "names.json", JSON.stringify(names), null);
    expect(await codeOf(manage(folder.dir, CREATE))).toBe("EXHAUSTED");
  });
});

describe("visible text", () => {
  test.each([
    "Größe, naïve, 日本語, עברית, العربية, हिन्दी, فارسی می‌خواهم",
    "👩‍💻 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ 1️⃣",
    "tab\tand\r\nline",
  ])("passes: %s", (text) => {
    requireVisible("body", text);
  });

  test.each([
    "a\u200bb",
    "a\u202eb",
    "\u2066a",
    "a\u{e0041}",
    "\ufeffa",
    "a\u00adb",
    "a\u001bb",
    "a \u200d b",
    "x\u2028y",
    "\u3164",
  ])("refuses %j", (text) => {
    expect(() => requireVisible("body", text)).toThrow(SyscallError);
  });
});
