import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { loadProjectDoc } from "../../src/config/project-doc.ts";
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
  });

  test("is refused where it is a link that leads back to itself", () => {
    using box = new Sandbox();
    symlinkSync("AGENTS.md", join(box.projectDir, "AGENTS.md"));
    expect(() => loadProjectDoc(box.project(), box.projectDir)).toThrow(
      expect.objectContaining({ code: "INVALID", message: expect.stringContaining("back to itself") }),
    );
  });

  test("is not read outside of a project", () => {
    using box = new Sandbox();
    box.write("home/AGENTS.md", "above");
    expect(loadProjectDoc(box.project(box.home), join(box.home))).toBeNull();
  });
});
