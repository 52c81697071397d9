/** The rules of a process that bind its programs, too: for files that they may not read or write, or may write by name. */

import { innerPath } from "../../lib/inner-path.ts";
import type { FileRule, FileRules } from "../../sandbox/file-rules.ts";
import { textsOf } from "./coverage.ts";
import { type PathSegments, segments } from "./glob.ts";
import type { Permissions } from "./permissions.ts";
import type { Rule } from "./rule.ts";

type PatternRule = Rule & { kind: "pattern" };

export function fileRules({ denials, limits, facts }: Permissions["overFiles"]): FileRules {
  const target = (path: string): PathSegments => {
    const inner = innerPath(facts.projectDir ?? "/", path);
    return { absolute: segments(path), relative: inner === null ? null : segments(inner) };
  };
  const writing = new Set(facts.tools.filter(({ readOnly }) => readOnly !== true).map(({ name }) => name));
  const isWriting = (rule: Rule): rule is PatternRule => isPattern(rule) && writing.has(rule.name);
  const allowing = limits.map((layer) => layer.filter(isWriting));
  return {
    hidden: denials
      .filter(isPattern)
      .filter(({ name }) => name === "Read")
      .map((rule) => denying(rule, target)),
    kept: denials.filter(isWriting).map((rule) => denying(rule, target)),
    lifted: allowing.every((layer) => layer.length > 0) ? lifting(allowing, target) : null,
  };
}

function denying({ text, path }: PatternRule, target: (path: string) => PathSegments): FileRule {
  return {
    text,
    covers: (file) => path.denies(target(file)),
    coversAll: (folder) => path.endsInAll && path.denies(target(folder)),
    reaches: (folder) => path.mayDenyBelow(target(folder)),
    isAnchored: path.isAnchored,
    root: path.root?.dir ?? null,
  };
}

/** A rule of every list must name the protected path: one that begins with a wildcard does not. */
function lifting(
  layers: readonly (readonly PatternRule[])[],
  target: (path: string) => PathSegments,
): FileRule {
  const every = (path: string, fits: (rule: PatternRule, at: PathSegments) => boolean): boolean => {
    const at = target(path);
    return layers.every((layer) => layer.some((rule) => rule.path.begins(at) && fits(rule, at)));
  };
  return {
    text: layers.flatMap(textsOf).join(", "),
    covers: (file) => every(file, ({ path }, at) => path.covers(at)),
    coversAll: (folder) => every(folder, ({ path }, at) => path.endsInAll && path.covers(at)),
    reaches: (folder) => every(folder, ({ path }, at) => path.coversBelow(at)),
    isAnchored: true,
    root: null,
  };
}

function isPattern(rule: Rule): rule is PatternRule {
  return rule.kind === "pattern";
}
