import { describe, expect, test } from "bun:test";
import { Machine } from "./support/machine.ts";
import { systemPrompt, toolNames, toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const CREATE = {
  action: "create",
  name: "release-notes",
  description: "How to write release notes.",
  body: "List the merged changes.",
};

describe.concurrent("a skill that an agent writes", () => {
  test("is not loaded until it is trusted, is shown as waiting, and waits again when it is changed", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "write it": [calls(["SkillManage", CREATE]), says("written")],
      "change it": [
        calls(["SkillManage", { action: "patch", name: "release-notes", body: "Do something else." }]),
        says("changed"),
      ],
      "use it": [calls(["Skill", { skill: "release-notes" }]), says("used")],
      "remove it": [calls(["SkillManage", { action: "delete", name: "release-notes" }]), says("gone")],
    });
    const use = async () => {
      await verdict(machine, ["use it"]);
      return toolResults(model.last).at(-1);
    };

    const { receipt } = await verdict(machine, ["write it"]);
    expect(receipt).toMatchObject({ exit_code: 0 });
    expect(toolNames(model.last)).not.toContain("SkillManage");
    expect(await use()).toStartWith("Error NOT_FOUND");
    const named = await machine.run(["spawn", "use it", "--skill", "release-notes"]);
    expect(named.code).not.toBe(0);
    expect(named.stderr).toContain("that an agent has written");
    const listed = (await machine.run(["skills"])).stdout;
    expect(listed).toMatch(/^release-notes +waits for rnix trust/m);

    const asked = (await machine.run(["trust", "--yes"])).stdout;
    expect(asked.replace(/\s+/g, " ")).toContain(
      `skill release-notes, written by agent default in run ${receipt.uuid}`,
    );
    expect(await use()).toContain("List the merged changes.");
    expect(systemPrompt(model.last)).toContain("- release-notes: How to write release notes.");
    expect((await machine.run(["skills"])).stdout).not.toContain("waits");

    await verdict(machine, ["change it"]);
    expect(await use()).toStartWith("Error NOT_FOUND");
    await machine.run(["trust", "--yes"]);
    expect(await use()).toContain("Do something else.");
    await verdict(machine, ["remove it"]);
    expect((await machine.run(["skills"])).stdout).not.toContain("release-notes");
  });

  test("waits in a followed project, too, and an agent without the right can't write one", async () => {
    await using machine = await Machine.playing({
      "write it": [calls(["SkillManage", CREATE]), says("written")],
      "try it": [calls(["SkillManage", { ...CREATE, name: "other" }]), says("tried")],
    });
    machine.write("AGENTS.md", "Hello.\n");
    await machine.run(["trust", "--follow", "--yes"]);
    await verdict(machine, ["write it"]);
    await verdict(machine, ["try it", "--agent", "code-analyst"]);
    const listed = (await machine.run(["skills"])).stdout;
    expect(listed).toMatch(/^release-notes +waits for rnix trust/m);
    expect(listed).not.toContain("other");
  });
});

describe.concurrent("the files of a skill", () => {
  test("are listed when it is loaded, and read by Skill, for a skill outside the project", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "use it": [
        calls(["Skill", { skill: "pdf" }]),
        calls(
          ["Skill", { skill: "pdf", file: "references/FORMS.md" }],
          ["Skill", { skill: "pdf", file: "../../x" }],
        ),
        says("used"),
      ],
    });
    const dir = `${machine.configDir}/skills/pdf`;
    machine.write(
      `${dir}/SKILL.md`,
      "---\nname: pdf\ndescription: Fills forms\n---\nSee references/FORMS.md.\n",
    );
    machine.write(`${dir}/references/FORMS.md`, "Field by field.\n");
    await verdict(machine, ["use it"]);
    const [loaded, file, outside] = toolResults(model.last);
    expect(loaded).toContain("(Skill with `file` reads one): references/FORMS.md");
    expect(file).toBe("Field by field.\n");
    expect(outside).toStartWith("Error NOT_FOUND");
  });
});
