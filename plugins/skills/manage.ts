/** The tool SkillManage: its definition, and how its input becomes a SKILL.md. */

import { type FromSchema, SyscallError, type ToolDef } from "rnix/plugin";

export const SKILL_MANAGE = {
  name: "SkillManage",
  description:
    "Write a skill for later runs: instructions for work that you had to find out how to do. It is used once the user has trusted it. patch and delete change skills that agents have written.",
  input: {
    type: "object",
    properties: {
      action: { type: "string", enum: ["create", "patch", "delete"] },
      name: { type: "string", minLength: 1, description: "Such as `release-notes`." },
      description: { type: "string", description: "What it does, and when to use it." },
      allowed_tools: { type: "string", description: "Such as `Read Bash(git *)`." },
      body: { type: "string", description: "The instructions, in Markdown." },
    },
    required: ["action", "name"],
    additionalProperties: false,
  },
  subject: "name",
  defer: true,
  lasting: true,
  annotations: { destructiveHint: false, openWorldHint: false },
} as const satisfies ToolDef;

export type SkillRequest = FromSchema<(typeof SKILL_MANAGE)["input"]>;

/** What of a skill an agent decides. */
interface SkillText {
  description: string;
  allowed_tools: string;
  body: string;
}

/** The run that writes. */
export interface Author {
  agent: string;
  uuid: string;
}

const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
const MAX_NAME = 64;
const LIMITS: Readonly<Record<keyof SkillText, number>> = {
  description: 1024,
  allowed_tools: 1024,
  body: 64 * 1024,
};

/** What the schema does not say. Fails with INVALID. */
export function checkRequest({ action: _, name, ...texts }: SkillRequest): void {
  if (!NAME.test(name) || name.length > MAX_NAME)
    throw invalid(
      `name: expected at most ${MAX_NAME} lowercase letters, digits and single hyphens, such as "release-notes"; got ${JSON.stringify(name)}`,
    );
  for (const key of ["description", "allowed_tools", "body"] as const) {
    const text = texts[key] ?? "";
    if (text.length > LIMITS[key])
      throw invalid(`${key}: expected at most ${LIMITS[key]} characters, got ${text.length}`);
    requireVisible(key, text);
    if (key !== "body" && text.includes("\n")) throw invalid(`${key}: expected one line`);
  }
}

/** The SKILL.md. Its front matter names the run that wrote it, for the user who decides. */
export function skillFile(name: string, { description, allowed_tools, body }: SkillText, by: Author): string {
  if (description.trim() === "")
    throw invalid("description: expected what the skill does and when to use it");
  if (body.trim() === "") throw invalid("body: expected instructions in Markdown");
  const lines = [
    "---",
    `name: ${name}`,
    `description: ${JSON.stringify(description.trim())}`,
    ...(allowed_tools.trim() === "" ? [] : [`allowed-tools: ${JSON.stringify(allowed_tools.trim())}`]),
    "metadata:",
    `  agent: ${JSON.stringify(by.agent)}`,
    `  run: ${JSON.stringify(by.uuid)}`,
    "---",
    "",
    body.trim(),
    "",
  ];
  return lines.join("\n");
}

/** The parts of a file that `skillFile` has made. */
export function readSkillFile(file: string): SkillText {
  const [, front = "", body = ""] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(file) ?? [];
  const field = (key: string): string => {
    const [, value] = new RegExp(`^${key}: (".*")$`, "m").exec(front) ?? [];
    return value === undefined ? "" : String(JSON.parse(value));
  };
  return { description: field("description"), allowed_tools: field("allowed-tools"), body: body.trim() };
}

export function invalid(message: string): SyscallError {
  return new SyscallError("INVALID", `SkillManage: ${message}.`);
}

/** Control characters but tab and line feed; line separators; characters that hide or reorder text; unpaired surrogates. */
const HIDDEN =
  /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]|[\u115f\u1160\u3164\uffa0]|\u034f|\u17b4|\u17b5/gu;
/** Joiners are part of words and emoji, and hide nothing there. */
const LOOSE_JOINER =
  /(?<![\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}])(?<!\ufe0f)[\u200c\u200d]|[\u200c\u200d](?![\p{L}\p{M}\p{Extended_Pictographic}])/gu;
/** The flags of England, Scotland and Wales are written with tags. */
const FLAG = /\u{1f3f4}[\u{e0020}-\u{e007e}]{1,8}\u{e007f}/gu;

/** Fails with INVALID, which names the character and its line. */
export function requireVisible(what: string, text: string): void {
  const plain = text.replace(FLAG, "").replaceAll("\r\n", "\n");
  for (const pattern of [HIDDEN, LOOSE_JOINER]) {
    pattern.lastIndex = 0;
    const found = pattern.exec(plain);
    if (!found) continue;
    const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const line = plain.slice(0, found.index).split("\n").length;
    const message = `SkillManage: ${what} has the invisible character U+${code} in line ${line}. Write it without.`;
    throw new SyscallError("INVALID", message);
  }
}
