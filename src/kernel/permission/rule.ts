/** One rule of `allowed_tools` or of a deny list, and its grammar. */

import { SyscallError } from "../../plugin/index.ts";
import { CommandPattern } from "./command-pattern.ts";
import { segments } from "./glob.ts";
import { PathPattern } from "./path-pattern.ts";

export type Rule =
  /** `*` */
  | { kind: "all"; text: string }
  /** `Read`; with a star (`mcp__github__*`) every tool with a matching name. */
  | { kind: "tool"; text: string; name: string; glob: boolean }
  /** `Bash(git *)`, `Read(src/**)`. What the pattern means depends on the tool's subject. */
  | { kind: "pattern"; text: string; name: string; command: CommandPattern; path: PathPattern }
  /** `/dev/fs`: the device and everything below it. With stars (`/dev/fs/src/**`): every matching path. */
  | { kind: "device"; text: string; segments: readonly string[]; glob: boolean };

const NAME = /^[A-Za-z_*][A-Za-z0-9_.:*-]*$/;
const DEVICE = /^(?:\/[A-Za-z0-9._*?@+-]+)+$/;
const MAX_RULE = 1_000;

/** Fails with INVALID for a malformed rule. Does not check whether names exist. */
export function parseRule(text: string): Rule {
  if (text === "*") return { kind: "all", text };
  if (text.length > MAX_RULE) throw malformed(text, `at most ${MAX_RULE} characters`);
  if (text.startsWith("/")) return deviceRule(text);
  const open = text.indexOf("(");
  if (open < 0) return toolRule(text, text);
  const { name, glob } = toolRule(text, text.slice(0, open));
  const pattern = text.slice(open + 1, -1);
  if (!text.endsWith(")") || pattern.trim() === "") throw malformed(text, "a pattern like Bash(git *)");
  if (glob) throw malformed(text, "one tool's whole name before a pattern");
  const command = new CommandPattern(pattern);
  return { kind: "pattern", text, name, command, path: new PathPattern(pattern) };
}

function toolRule(text: string, name: string): Rule & { kind: "tool" } {
  if (!NAME.test(name)) throw malformed(text, "a tool's name");
  return { kind: "tool", text, name, glob: name.includes("*") };
}

function deviceRule(text: string): Rule {
  const parts = segments(text);
  if (!DEVICE.test(text) || parts.some((part) => part === "." || part === "..")) {
    throw malformed(text, 'a device path without "." and ".." parts and without a trailing slash');
  }
  return { kind: "device", text, segments: parts, glob: /[*?]/.test(text) };
}

function malformed(text: string, expected: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `Tool rule ${JSON.stringify(text.slice(0, 100))}: expected ${expected}. Rules are tool names (Read), patterns (Bash(git *), Read(src/**)), device paths (/dev/fs) and "*".`,
  );
}
