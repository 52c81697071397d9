/** The patterns of one .gitignore, as globs on paths. */

interface Rule {
  glob: Bun.Glob;
  /** `!pattern`: names it again. */
  isNegated: boolean;
  folderOnly: boolean;
}

/** Longer lines are no patterns that a person wrote. */
const MAX_PATTERN = 1000;
const MAX_RULES = 5000;

/** The rules of a .gitignore. Paths are relative to its folder. */
export class IgnoreRules {
  readonly #rules: Rule[];

  constructor(text: string) {
    this.#rules = text
      .split("\n")
      .slice(0, MAX_RULES)
      .flatMap((line) => ruleOf(line.replace(/\r$/, "")));
  }

  /** What the last matching rule says; undefined when none matches. */
  verdict(path: string, isFolder: boolean): "ignored" | "named" | undefined {
    const rule = this.#rules.findLast(
      ({ folderOnly, glob }) => (isFolder || !folderOnly) && glob.match(path),
    );
    return rule && (rule.isNegated ? "named" : "ignored");
  }
}

function ruleOf(line: string): Rule[] {
  if (line.startsWith("#") || line.length > MAX_PATTERN) return [];
  // Trailing spaces count only after a backslash.
  const trimmed = line.replace(/(?<!\\) +$/, "");
  const isNegated = trimmed.startsWith("!");
  const written = isNegated ? trimmed.slice(1) : trimmed;
  const folderOnly = written.endsWith("/");
  const pattern = folderOnly ? written.slice(0, -1) : written;
  // git understands no set without an end.
  if (pattern === "" || /(?<!\\)\[(?!.[^\]]*\])/.test(pattern)) return [];
  // Braces mean nothing to git.
  const literal = pattern.replace(/^\//, "").replace(/[{}]/g, "\\$&");
  return [{ glob: new Bun.Glob(pattern.includes("/") ? literal : `**/${literal}`), isNegated, folderOnly }];
}
