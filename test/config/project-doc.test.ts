import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { loadProjectDoc } from "../../src/config/project/project-doc.ts";
import { Sandbox } from "./sandbox.ts";

describe("AGENTS.md", () => {
  test("is the nearest from the run's folder up to the project's", () => {
    using box = new Sandbox();
    box.write("home/AGENTS.md", "above");
    const cwd = box.folder("home/work/a/b");
    expect(loadProjectDoc(box.project(), cwd)).toBeNull();
    const top = box.write("home/work/AGENTS.md", "\ntop\n");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: top, text: "top" });
    const near = box.write("home/work/a/AGENTS.md", "near");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: near, text: "near" });
    expect(loadProjectDoc(box.project(), box.projectDir)?.text).toBe("top");
    expect(loadProjectDoc(box.project(), box.dir)?.text).toBe("top");
    const odd = box.write(
      "home/work/..drafts/AGENTS.md",
      "a folder of the project, whatever its name begins with",
    );
    expect(loadProjectDoc(box.project(), box.folder("home/work/..drafts"))?.file).toBe(odd);
  });

  test("is refused where it is a link that leads back to itself", () => {
    using box = new Sandbox();
    symlinkSync("AGENTS.md", join(box.projectDir, "AGENTS.md"));
    expect(() => loadProjectDoc(box.project(), box.projectDir)).toThrow(
      expect.objectContaining({ code: "INVALID", message: expect.stringContaining("back to itself") }),
    );
  });

  test("may be a CLAUDE.md where a folder has no AGENTS.md", () => {
    using box = new Sandbox();
    const cwd = box.folder("home/work/a/b");
    const top = box.write("home/work/CLAUDE.md", "theirs");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: top, text: "theirs" });
    const ours = box.write("home/work/AGENTS.md", "ours");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: ours, text: "ours", unread: top });
    for (const same of ["ours", "@AGENTS.md\n", ""]) {
      box.write("home/work/CLAUDE.md", same);
      expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: ours, text: "ours" });
    }
    const near = box.write("home/work/a/CLAUDE.md", "near");
    expect(loadProjectDoc(box.project(), cwd)).toEqual({ file: near, text: "near" });
  });

  test("a CLAUDE.md that is a link to outside, or too large, is left out with a notice", () => {
    using box = new Sandbox();
    const outside = box.write("home/notes.md", "secret");
    symlinkSync(outside, join(box.projectDir, "CLAUDE.md"));
    const cwd = box.folder("home/work/large");
    box.write("home/work/large/CLAUDE.md", "x".repeat(1024 ** 2 + 1));
    const notices: string[] = [];
    expect(loadProjectDoc(box.project(), cwd, notices)).toBeNull();
    expect(notices).toEqual([
      expect.stringContaining("large/CLAUDE.md"),
      expect.stringContaining(`found a link to ${outside}`),
    ]);
  });

  test("is not read outside of a project", () => {
    using box = new Sandbox();
    box.write("home/AGENTS.md", "above");
    expect(loadProjectDoc(box.project(box.home), join(box.home))).toBeNull();
  });
});
