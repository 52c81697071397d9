/** `rnix plugins`: lists, checks and creates plugins. */

import { relative } from "node:path";
import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { inSettingsFolder, TYPES_FOR_EDITORS } from "../files/named-files.ts";
import { absolutePath } from "../files/paths.ts";
import { bool, json } from "../flags.ts";
import { environment, type Io, project, refuseInsideRun, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { excerpt, pluginReport, problemPlace } from "../output/plugin-report.ts";
import { print } from "../output/print.ts";
import { agreed } from "../questions/answer-questions.ts";

const check = defineCommand({
  about: "Check a plugin: read it, and load it if it is trusted; exit 1 if it does not load",
  args: [{ name: "FILE", about: "the plugin's file, or its folder", file: true }],
  flags: {
    run: bool("load it even if it is not trusted; asks first"),
    yes: bool("with --run: do not ask; required without a terminal"),
    json,
  },
  examples: { "rnix plugins check plugins/jira.ts": "its devices and tools, or what is wrong and where" },
  notes: [
    "Loading runs the plugin's code with your rights. A plugin that is not trusted is read but not loaded, unless you give --run. This command is refused inside a run.",
  ],
  async run(io, flags, [file = ""]) {
    await refuseInsideRun(io, "plugins check");
    const { checkPlugin } = await import("../../server/offline-commands.ts");
    const path = absolutePath(io, "FILE", file);
    if (flags.run && !(await maySay(io, path, flags.yes))) {
      io.stderr.write("nothing was loaded\n");
      return EXIT.error;
    }
    const report = await checkPlugin(path, environment(io), flags.run);
    print(io, flags, report, (style) => pluginReport(report, style));
    return report.ok ? EXIT.ok : EXIT.error;
  },
});

/** Whether a person lets the plugin's code run. */
async function maySay(io: Io, path: string, yes: boolean): Promise<boolean> {
  if (yes) return true;
  if (io.stdin.kind !== "tty" || io.env.CI) {
    throw usageError("there is no terminal to ask at: look at the file, then give --yes");
  }
  return agreed(io, `Run the code of ${path} as you?`);
}

const create = defineCommand({
  about: "Write a working plugin template, and the types for your editor",
  args: [{ name: "NAME", about: "lowercase letters, digits and hyphens, such as jira" }],
  examples: { "rnix plugins new jira": "writes .rnix/plugins/jira.ts with a device and a tool" },
  files: (io, [name = ""]) => inSettingsFolder(io, `plugins/${name}.ts`, ...TYPES_FOR_EDITORS),
  async run(io, _flags, [name = ""]) {
    const [{ projectOf, stockPlugins }, { newPlugin, toolOf }] = await Promise.all([
      import("../../server/offline-commands.ts"),
      import("../files/scaffold.ts"),
    ]);
    const file = newPlugin(projectOf({ cwd: io.cwd, env: environment(io) }), name, await stockPlugins());
    io.stdout.write(`${file}\n`);
    const shown = relative(io.cwd, file);
    io.stderr.write(
      `next: rnix trust --follow, so that it runs as you edit it (rnix trust asks after each edit)\n` +
        `      rnix plugins check ${shown.startsWith("..") ? file : shown}\n` +
        `      rnix call ${toolOf(name)} '{"text": "one two"}'\n`,
    );
    return EXIT.ok;
  },
});

export default defineCommand({
  about: "List the plugins that a run loads here, where they come from, and why any failed",
  lists: true,
  flags: { json },
  examples: {
    "rnix plugins": "stock ones, yours and the project's",
    "rnix plugins new jira": "a working template with types",
    "rnix plugins check plugins/jira.ts": "whether it will load",
  },
  subcommands: { check, new: create },
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const { plugins } = await wire.request("list_plugins", project(io));
      for (const { name, problems } of plugins) {
        for (const problem of problems) {
          io.stderr.write(`plugin ${name}: ${problemPlace(problem)}\n${excerpt(problem)}`);
        }
      }
      return printCatalog(
        io,
        plugins,
        [
          { title: "PLUGIN", value: ({ name }) => name },
          { title: "STATE", value: ({ state }) => state },
          { title: "VERSION", value: ({ version }) => version ?? "-", leftOut: 1 },
          { title: "LAYER", value: ({ layer }) => layer },
          { title: "DEVICES", value: devicesOf, flexible: 20 },
          {
            title: "TOOLS",
            value: ({ devices }) => devices.flatMap(({ tools }) => tools).join(",") || "-",
            flexible: 12,
          },
          { title: "FROM", value: ({ source }) => source, flexible: true },
        ],
        flags,
      );
    }),
});

/** The paths that are its own, and where what it mounts stands. */
function devicesOf({ devices, mounts }: Answers["list_plugins"]["plugins"][number]): string {
  const paths = devices.map(({ path }) => path);
  return [...paths, ...(mounts === null ? [] : [`/mnt/${mounts}`])].join(",") || "-";
}
