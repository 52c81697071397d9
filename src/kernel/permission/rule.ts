/** One rule of `allowed_tools` or of a deny list, and its grammar. */

import { SyscallError } from "../../plugin/index.ts";
import { CommandPattern } from "./command-pattern.ts";
import {
  fitsWithin,
  isAbove,
  literalHead,
  matchesBelow,
  matchPath,
  matchWild,
  type PathSegments,
  segments,
} from "./glob.ts";
import { countProtected, namesProtected, type Protection } from "./protected-paths.ts";

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
  if (!DEVICE.test(text) || parts.some((part) => part === "." || part === ".."))
    throw malformed(text, 'a device path without "." and ".." parts and without a trailing slash');
  return { kind: "device", text, segments: parts, glob: /[*?]/.test(text) };
}

function malformed(text: string, expected: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `Tool rule ${JSON.stringify(text.slice(0, 100))}: expected ${expected}. Rules are tool names (Read), patterns (Bash(git *), Read(src/**)), device paths (/dev/fs) and "*".`,
  );
}

/** `src/**` is relative to the project, `/data/**` absolute. A name that ends in "/" includes everything below it. */
class PathPattern {
  readonly #absolute: boolean;
  readonly #parts: readonly string[];
  readonly #folded: readonly string[];
  /** Why this text is no path pattern, if so. */
  readonly problem: string | undefined;

  constructor(text: string) {
    this.#absolute = text.startsWith("/");
    this.#parts = segments(text.endsWith("/") ? `${text}**` : text).filter((part) => part !== ".");
    this.#folded = this.#parts.map(fold);
    this.problem = problemOf(text, this.#parts);
  }

  covers(target: PathSegments): boolean {
    const path = this.#pathOf(target);
    return this.problem === undefined && path !== null && matchPath(this.#parts, path);
  }

  /** Returns true when it names the protected part of this target. */
  names(target: PathSegments, protection: Protection): boolean {
    const path = this.#pathOf(target);
    return (
      path !== null && namesProtected(this.#parts, path, protection, target.absolute.length - path.length)
    );
  }

  /** What is before the first wildcard of an absolute pattern; null for others. `isWhole`: it covers all that is below. */
  get root(): { dir: string; isWhole: boolean } | null {
    if (!this.#absolute || this.problem !== undefined) return null;
    const at = this.#parts.findIndex((part) => /[*?]/.test(part));
    const literal = at < 0 ? this.#parts : this.#parts.slice(0, at);
    const isWhole = at < 0 || (this.#parts[at] === "**" && at === this.#parts.length - 1);
    return { dir: `/${literal.join("/")}`, isWhole };
  }

  /** Whether the pattern ends in `**`: then it covers everything below each folder that it covers. */
  get endsInAll(): boolean {
    return this.#parts.at(-1) === "**";
  }

  /** Whether the pattern begins with a folder's name, not with `**`. */
  get isAnchored(): boolean {
    return this.#parts[0] !== "**";
  }

  /** Returns true when it names, without a wildcard, the part of the target that is directly below the project, or all of it. */
  begins({ absolute, relative }: PathSegments): boolean {
    const literal = literalHead(this.#parts).length;
    if (!this.#absolute) return relative !== null && literal > 0;
    return literal > (relative === null ? absolute.length - 1 : absolute.length - relative.length);
  }

  /** The protected names in the pattern, and how often each occurs. */
  get protectedNames(): ReadonlyMap<string, number> {
    return countProtected(this.#parts);
  }

  /** Returns true when it covers some path below this folder. */
  coversBelow(folder: PathSegments): boolean {
    const path = this.#pathOf(folder);
    return this.problem === undefined && path !== null && matchesBelow(this.#parts, path);
  }

  /** Returns true when it covers every path that the other pattern covers. */
  contains(other: PathPattern): boolean {
    if (this.problem !== undefined || this.#absolute !== other.#absolute) return false;
    return matchWild(
      this.#parts,
      other.#parts,
      "**",
      (wanted, part) => part !== "**" && fitsWithin(wanted, part),
    );
  }

  /** For deny rules: ignores case, as some file systems do. */
  denies(target: PathSegments): boolean {
    const path = this.#pathOf(target);
    return path !== null && matchPath(this.#folded, path.map(fold));
  }

  /** Returns true when it denies some path below this folder. */
  mayDenyBelow(folder: PathSegments): boolean {
    const path = this.#pathOf(folder);
    return path !== null && matchesBelow(this.#folded, path.map(fold));
  }

  /** Returns true when the folder contains the denied path: `secret/**` is below the project's folder. */
  deniesBelow(folder: PathSegments): boolean {
    const path = this.#pathOf(folder);
    return path !== null && isAbove(path.map(fold), this.#folded);
  }

  #pathOf({ absolute, relative }: PathSegments): readonly string[] | null {
    return this.#absolute ? absolute : relative;
  }
}

function fold(part: string): string {
  return part.normalize("NFC").toLowerCase();
}

function problemOf(text: string, parts: readonly string[]): string | undefined {
  if (parts.includes("..")) return '".." in it: write the absolute path';
  if (/[{}]/.test(text)) return "braces in it: write one rule for each";
  if (text.startsWith("~")) return 'a "~": write the absolute path';
  return undefined;
}
