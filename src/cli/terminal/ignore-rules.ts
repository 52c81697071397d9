/** The patterns of one .gitignore, as tests on paths. */

interface Rule {
  test: RegExp;
  /** `!pattern`: names it again. */
  isNegated: boolean;
  folderOnly: boolean;
}

/** Longer lines are no patterns that a person wrote, and would make slow expressions. */
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
    for (let at = this.#rules.length - 1; at >= 0; at--) {
      const rule = this.#rules[at];
      if (rule === undefined || (rule.folderOnly && !isFolder) || !rule.test.test(path)) continue;
      return rule.isNegated ? "named" : "ignored";
    }
    return undefined;
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
  if (pattern === "") return [];
  const isAnchored = pattern.includes("/");
  const test = expressionOf(pattern.replace(/^\//, ""));
  if (test === null) return [];
  return [{ test: new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${test}$`, "s"), isNegated, folderOnly }];
}

/** null for a pattern that git does not understand either. */
function expressionOf(pattern: string): string | null {
  let source = "";
  for (let at = 0; at < pattern.length; at++) {
    const char = pattern[at] ?? "";
    if (char === "*") {
      const stars = /^\*+/.exec(pattern.slice(at))?.[0].length ?? 1;
      const isWhole = stars > 1 && (at === 0 || pattern[at - 1] === "/");
      const after = pattern[at + stars];
      if (isWhole && after === "/") {
        source += "(?:.*/)?";
        at += stars;
      } else {
        source += isWhole && after === undefined ? ".*" : "[^/]*";
        at += stars - 1;
      }
    } else if (char === "?") {
      source += "[^/]";
    } else if (char === "[") {
      const end = pattern.indexOf("]", at + 2);
      if (end < 0) return null;
      const inside = pattern.slice(at + 1, end).replace(/^[!^]/, "");
      const isExcluded = /^[!^]/.test(pattern.slice(at + 1, end));
      source += `[${isExcluded ? "^/" : ""}${inside.replace(/[\\\]^[]/g, "\\$&")}]`;
      at = end;
    } else {
      const literal = char === "\\" ? (pattern[++at] ?? "\\") : char;
      source += literal.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    }
  }
  return isExpression(source) ? source : null;
}

/** False for a set such as `[z-a]`. */
function isExpression(source: string): boolean {
  try {
    new RegExp(source);
    return true;
  } catch {
    return false;
  }
}
