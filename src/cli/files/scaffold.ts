/** Creates the files of `rnix init` and `rnix plugins new`. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Project, prepareProject, type SettingLine } from "../../server/offline-commands.ts";
import { usageError } from "../exit.ts";
import { contractSource } from "./contract-source.ts" with { type: "macro" };

interface Written {
  written: string[];
  /** Files that existed already. */
  kept: string[];
}

/** Creates the missing files of a project's `.rnix/` and overwrites none. */
export function initProject(project: Project, settings: SettingLine[]): Written {
  refuseNone(project);
  const settingsFolder = join(project.dir, ".rnix");
  const result: Written = { written: [], kept: [] };
  prepareProject(project);
  const files = new Map([
    ["config.yaml", configFile(settings)],
    ...TYPES,
    ["plugins/.gitkeep", ""],
    ["agents/.gitkeep", ""],
    ["skills/.gitkeep", ""],
  ]);
  for (const [name, text] of files) {
    const file = join(settingsFolder, name);
    (writeNew(file, text) ? result.written : result.kept).push(file);
  }
  return result;
}

/** Writes a plugin template and its types. Fails with INVALID if a plugin of this name exists. */
export function newPlugin(project: Project, name: string, stock: readonly string[]): string {
  if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)) {
    throw usageError(
      `NAME: expected lowercase letters, digits and hyphens, such as jira, got ${JSON.stringify(name)}`,
    );
  }
  if (stock.includes(name)) {
    throw usageError(
      `NAME: ${name} is a stock plugin, and a plugin of the same name would replace it; choose another name`,
    );
  }
  refuseNone(project);
  prepareProject(project);
  for (const [file, text] of TYPES) writeNew(join(project.dir, ".rnix", file), text);
  const file = join(project.dir, ".rnix", "plugins", `${name}.ts`);
  if (!writeNew(file, pluginFile(name))) throw usageError(`NAME: ${file} exists already`);
  return file;
}

/** Types for editors. At run time, rnix itself provides `rnix/plugin`. */
const TYPES: readonly (readonly [string, string])[] = [
  ["types/plugin.ts", contractSource()],
  [
    "tsconfig.json",
    `${JSON.stringify(
      {
        compilerOptions: {
          target: "ESNext",
          module: "Preserve",
          moduleResolution: "bundler",
          lib: ["ESNext", "DOM"],
          types: [],
          strict: true,
          noEmit: true,
          allowImportingTsExtensions: true,
          paths: { "rnix/plugin": ["./types/plugin.ts"] },
        },
        include: ["types", "plugins", "../plugins"],
      },
      null,
      2,
    )}\n`,
  ],
];

function configFile(settings: SettingLine[]): string {
  const lines = settings
    .filter(({ scope }) => scope === "run")
    .map((setting) => `# ${setting.about}\n# ${setting.key}: ${setting.default}\n`);
  return `# Settings of this project; \`rnix config\` shows all of them. These are the defaults.\n\n${lines.join("\n")}`;
}

function pluginFile(name: string): string {
  return `import { defineTool } from "rnix/plugin";

// The model sees name, description and input; run() answers its calls. \`context\` is the run that calls: its folder,
// environment and settings, and the services of \`needs\`. Import libraries inside run(), not at the top.
export default defineTool({
  name: "${toolOf(name)}",
  description: "Count the words of a text.",
  input: {
    type: "object",
    properties: { text: { type: "string", description: "The text." } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
  run({ text }, context) {
    context.progress("counting");
    return \`\${text.split(/\\s+/).filter(Boolean).length} words\`;
  },
});
`;
}

/** The tool of a new plugin: `jira-search` has JiraSearch. */
export function toolOf(plugin: string): string {
  return plugin.replace(/(^|-)([a-z0-9])/g, (_, _hyphen, letter: string) => letter.toUpperCase());
}

export function refuseNone({ kind, dir }: Project): void {
  if (kind !== "none") return;
  throw usageError(
    `${dir} can't be a project (it is HOME, above it, or writable by all users); change to a folder of your own`,
  );
}

/** Returns false if the file exists. */
export function writeNew(file: string, text: string): boolean {
  mkdirSync(dirname(file), { recursive: true });
  try {
    writeFileSync(file, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}
