/** The tool SkillManage: its definition, and how its input becomes a SKILL.md. */

import { SyscallError, type ToolDef } from "rnix/plugin";
import { jsonObject } from "../_lib/json-object.ts";
import { requireVisible } from "./visible-text.ts";

export const SKILL_MANAGE: ToolDef = {
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
};

export interface SkillRequest {
  action: "create" | "patch" | "delete";
  name: string;
  description?: string;
  allowed_tools?: string;
  body?: string;
}

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

/** A raw write is checked as a call of the tool is. Fails with INVALID. */
export function parseRequest(text: string): SkillRequest {
  const { action, name, description, allowed_tools, body } = jsonObject("SkillManage", text);
  if (action !== "create" && action !== "patch" && action !== "delete")
    throw invalid(`action: expected create, patch or delete, got ${JSON.stringify(action)}`);
  if (typeof name !== "string" || !NAME.test(name) || name.length > MAX_NAME)
    throw invalid(
      `name: expected at most ${MAX_NAME} lowercase letters, digits and single hyphens, such as "release-notes"; got ${JSON.stringify(name)}`,
    );
  return {
    action,
    name,
    ...optional("description", description),
    ...optional("allowed_tools", allowed_tools),
    ...optional("body", body),
  };
}

function optional(key: keyof SkillText, value: unknown): Partial<SkillText> {
  if (value === undefined) return {};
  if (typeof value !== "string") throw invalid(`${key}: expected a text, got ${JSON.stringify(value)}`);
  if (value.length > LIMITS[key])
    throw invalid(`${key}: expected at most ${LIMITS[key]} characters, got ${value.length}`);
  requireVisible(key, value);
  if (key !== "body" && value.includes("\n")) throw invalid(`${key}: expected one line`);
  return { [key]: value };
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
