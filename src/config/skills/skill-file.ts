/** Reads and checks the format of a SKILL.md (Agent Skills). */

import { basename } from "node:path";
import { z } from "zod";
import { nearestName } from "../../lib/edit-distance.ts";
import { splitToolRules } from "../../lib/tool-rules.ts";
import { SyscallError } from "../../plugin/index.ts";
import { expecting, mapping, strict, text } from "../files/values.ts";
import {
  type FrontMatter,
  parseStockYaml,
  parseYaml,
  placeIn,
  splitFrontMatter,
  type YamlText,
  yamlError,
} from "../files/yaml.ts";

export const SKILL_FILE = "SKILL.md";
/** Lowercase letters of any script: those without case, too. */
const NAME = /^[\p{Ll}\p{Lo}\p{M}\p{Nd}]+(?:-[\p{Ll}\p{Lo}\p{M}\p{Nd}]+)*$/u;
const MAX_NAME = 64;

/** The keys that Rnix uses. All others are ignored. */
export const SkillFile = z.lazy(() =>
  z.looseObject({
    name: z.coerce.string().min(1),
    description: text("a text that says what it does and when to use it"),
    "allowed-tools": z.union([z.string(), z.array(z.string())]).optional(),
  }),
);

/** The keys of the format. */
const Format = z.lazy(() =>
  strict({
    name: z
      .string(expecting("a name"))
      .max(MAX_NAME, { error: `expected at most ${MAX_NAME} characters` })
      .regex(NAME, { error: "expected lowercase letters, digits and single hyphens between them" }),
    description: text("a text that says what it does and when to use it").max(1024, {
      error: "expected at most 1024 characters",
    }),
    license: text().optional(),
    compatibility: text().max(500, { error: "expected at most 500 characters" }).optional(),
    metadata: mapping("texts", text()).optional(),
    "allowed-tools": z
      .union([z.string(), z.array(z.string())], expecting("tool names, in one text or a list"))
      .optional(),
  }),
);

/** The used keys of a SKILL.md's front matter. */
export type SkillFront = z.infer<typeof SkillFile>;

/** Reads and checks a stock SKILL.md, for the build; undefined for the skill's other files. */
export function stockSkillFront({ path, text }: { path: string; text: string }): SkillFront | undefined {
  if (basename(path) !== SKILL_FILE) return undefined;
  const label = stockLabel(path);
  return parseStockYaml(SkillFile, splitSkill(text, label).front, label).value;
}

/** Splits front matter and body. Fails with INVALID when there is no front matter. */
export function splitSkill(content: string, file: string): FrontMatter {
  const parts = splitFrontMatter(content);
  if (parts) return parts;
  throw new SyscallError(
    "INVALID",
    `${file}:1:1: expected YAML between two lines of "---" at the beginning.`,
  );
}

/** The rules of `allowed-tools`, or the names of another list: one text, or a list of them. */
export function toolNames(listed: string | string[]): string[] {
  return [listed]
    .flat()
    .flatMap(splitToolRules)
    .map((rule) => rule.trim())
    .filter((rule) => rule !== "");
}

/** Problems that its author should fix. The skill is used anyway. */
export function warningsOf(folder: string, name: string, yaml: YamlText): string[] {
  const at = `${placeIn(yaml, ["name"])}:`;
  const warnings: string[] = [];
  if (name !== folder) {
    warnings.push(`${at} the name "${name}" is not the folder's; the skill is called ${folder}`);
  }
  if (name.length > MAX_NAME) warnings.push(`${at} the name has more than ${MAX_NAME} characters`);
  return warnings;
}

/** Checks strictly; INVALID names file, line and column. Returns a warning for each key that is not part of the format. */
export async function checkSkillFile(file: string, content: string): Promise<string[]> {
  const { front, body } = splitSkill(content, file);
  const { value, text: yaml } = await parseYaml(Format.unwrap().loose(), front, file, { firstLine: 2 });
  const warnings = foreignKeys(Object.keys(value), yaml);
  const folder = basename(file.slice(0, -SKILL_FILE.length - 1));
  if (value.name !== folder)
    throw yamlError(yaml, ["name"], `expected the folder's name "${folder}", got "${value.name}"`);
  if (body === "") warnings.push(`${file}: there are no instructions after the front matter`);
  return warnings;
}

/** Keys of Claude Code and Cursor. Some resemble a key of the format, and are no misspellings of it. */
const FOREIGN = new Set([
  ...["agent", "alwaysApply", "argument-hint", "arguments", "context", "disable-model-invocation"],
  ...["disallowed-tools", "effort", "globs", "hooks", "model", "paths", "shell", "user-invocable"],
  ...["version", "when_to_use"],
]);

/** Fails with INVALID for a misspelled key of the format. */
function foreignKeys(keys: readonly string[], yaml: YamlText): string[] {
  const known = Object.keys(Format.unwrap().shape);
  return keys
    .filter((key) => !known.includes(key))
    .map((key) => {
      const meant = FOREIGN.has(key) ? undefined : nearestName(key, known);
      if (meant !== undefined)
        throw yamlError(yaml, [key], `unknown key "${key}"; did you mean "${meant}"?`, "key");
      return `${placeIn(yaml, [key], "key")}: the key "${key}" is not part of the format, and Rnix ignores it`;
    });
}

/** The path of a stock skill's file in messages. */
export function stockLabel(path: string): string {
  return `embedded/skills/${path}`;
}
