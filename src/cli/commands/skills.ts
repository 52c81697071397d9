/** `rnix skills`: lists, checks and creates skills. */

import { relative } from "node:path";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { inSettingsFolder } from "../files/named-files.ts";
import { absoluteFolder } from "../files/paths.ts";
import { json } from "../flags.ts";
import { environment, project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { print } from "../output/print.ts";

const create = defineCommand({
  about: "Write a SKILL.md to fill in",
  args: [{ name: "NAME", about: "lowercase letters, digits and hyphens, such as release-notes" }],
  examples: { "rnix skills new release-notes": "writes .rnix/skills/release-notes/SKILL.md" },
  files: (io, [name = ""]) => inSettingsFolder(io, `skills/${name}/SKILL.md`),
  async run(io, _flags, [name = ""]) {
    const [{ projectOf, stockSkills }, { newSkill }] = await Promise.all([
      import("../../server/offline-commands.ts"),
      import("../files/scaffold.ts"),
    ]);
    const file = newSkill(projectOf({ cwd: io.cwd, env: environment(io) }), name, await stockSkills());
    io.stdout.write(`${file}\n`);
    const shown = relative(io.cwd, file);
    io.stderr.write(
      `next: edit ${shown}\n` +
        `      rnix skills check ${shown.replace(/\/SKILL\.md$/, "")}\n` +
        `The agents default and coder offer it to the model; --skill ${name} puts it into the prompt.\n`,
    );
    return EXIT.ok;
  },
});

export default defineCommand({
  about: "List the skills that agents can use here, or check your own",
  lists: true,
  flags: { json },
  examples: {
    "rnix skills": "the project's, yours and the stock ones",
    "rnix skills new release-notes": "a SKILL.md to fill in",
    "rnix skills check .rnix/skills": "checks the format of every skill in a folder",
  },
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const { skills, diagnostics } = await wire.request("list_skills", project(io));
      return printCatalog(
        io,
        skills,
        [
          { title: "SKILL", value: ({ name }) => name },
          {
            title: "STATE",
            value: ({ waits }) => (waits ? "waits for rnix trust" : "ready"),
            when: skills.some(({ waits }) => waits),
          },
          { title: "TOOLS", value: ({ allowed_tools }) => allowed_tools?.join(",") ?? "-" },
          { title: "FROM", value: ({ source }) => source, flexible: true },
          { title: "DESCRIPTION", value: ({ description }) => description, flexible: true },
        ],
        { ...flags, diagnostics },
      );
    }),
  subcommands: {
    new: create,
    check: defineCommand({
      about:
        "Check a skill's folder, or a folder of skills; exit 1 when something is wrong. Warns of unknown keys",
      args: [{ name: "DIR", about: "the folder; the current one by default", optional: true, file: true }],
      flags: { json },
      examples: { "rnix skills check skills/release-notes": "names what is wrong, with file and line" },
      files: (_io, [dir = "."]) => ({ read: [dir] }),
      async run(io, flags, [dir = "."]) {
        const { checkSkills } = await import("../../server/offline-commands.ts");
        const { checked, problems, warnings } = await checkSkills(absoluteFolder(io, "DIR", dir));
        print(io, flags, { checked, problems, warnings }, () => {
          const good = checked.filter((path) => !problems.some((p) => p.path === path));
          return [
            ...good.map((path) => `ok  ${path}\n`),
            ...problems.map(({ message }) => `bad ${message}\n`),
            ...warnings.map(({ message }) => `warning ${message}\n`),
          ].join("");
        });
        return problems.length === 0 ? EXIT.ok : EXIT.error;
      },
    }),
  },
});
