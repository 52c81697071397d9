import { SyscallError } from "../index.ts";
import { embeddedPlugins } from "./embedded.ts";
import { PLUGIN_NAME } from "./folders.ts";
import contractTypes from "./rnix-plugin.txt" with { type: "text" };

export interface TemplateFile {
  /** Relative to the plugins folder it is for. */
  path: string;
  text: string;
}

/**
 * What `rnix plugins new NAME` writes into a plugins folder: a plugin that works as it is, and the types of
 * `rnix/plugin` so that an editor and tsc understand it without a checkout of Rnix. INVALID for a name that
 * can't be one or is a stock plugin's.
 */
export function template(name: string): TemplateFile[] {
  if (!PLUGIN_NAME.test(name)) {
    throw new SyscallError(
      "INVALID",
      `"${name}" is no name for a plugin: use letters, digits, "_" and "-", at most 64.`,
    );
  }
  if (embeddedPlugins().some((stock) => stock.name === name)) {
    throw new SyscallError(
      "INVALID",
      `${name} is a stock plugin; one of the same name would replace it. Choose another name.`,
    );
  }
  return [
    { path: `${name}.ts`, text: source(name) },
    { path: "rnix-plugin.d.ts", text: contractTypes },
  ];
}

function source(name: string): string {
  const tool = toolName(name);
  return `/// <reference path="./rnix-plugin.d.ts" />
import { definePlugin, type OpenContext, SyscallError, type VFSFile } from "rnix/plugin";

/** One call of the tool: the kernel writes its input, reads the answer to its end and closes. */
function open(context: OpenContext): VFSFile {
  let answer = "";
  return {
    async write(data) {
      const input: { name?: unknown } = JSON.parse(String(data));
      if (typeof input.name !== "string") throw new SyscallError("INVALID", "name: expected a text.");
      context.progress(\`greeting \${input.name}\`);
      answer = \`Hello \${input.name}, from \${context.cwd}.\`;
    },
    async read(max) {
      const piece = answer.slice(0, max);
      answer = answer.slice(max);
      return piece;
    },
    async close() {},
    async stat() {
      return { name: "${name}", size: answer.length, isDevice: true, devicePath: "/dev/${name}" };
    },
  };
}

export default definePlugin({
  name: "${name}",
  devices: {
    "/dev/${name}": {
      factory: (_subpath, _flags, context) => open(context),
      tools: [
        {
          name: "${tool}",
          description: "Greets someone by name. Replace this with what your tool does and when to use it.",
          input: {
            type: "object",
            properties: { name: { type: "string", description: "Who is greeted" } },
            required: ["name"],
            additionalProperties: false,
          },
          annotations: { readOnlyHint: true },
        },
      ],
    },
  },
});
`;
}

/** "jira-search" → "JiraSearch". */
function toolName(name: string): string {
  const words = name.split(/[_-]+/).filter((word) => word.length > 0);
  const joined = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return /^[A-Za-z]/.test(joined) ? joined : `Tool${joined}`;
}
