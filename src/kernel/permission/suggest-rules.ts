/** Suggests the rules that "always" would allow, for a call that a person is asked about. */

import type { CallView } from "./call-view.ts";
import { coveredBy } from "./coverage.ts";
import { isHarmless } from "./harmless-commands.ts";
import { patternToOpen } from "./opened-folders.ts";
import { parseRule } from "./rule.ts";
import { namesIn } from "./shell-lexer.ts";
import type { SimpleCommand } from "./shell-words.ts";

/** Programs whose first argument names what they do. */
const WITH_SUBCOMMANDS = namesIn(
  `apt apt-get brew bun bundle cargo composer deno docker dotnet gem gh git go gradle helm just kubectl make mix mvn npm npx
  pip pip3 pnpm podman poetry rails rake rustup systemctl terraform uv yarn`,
);
/** Of these, `run` and `exec` alone say nothing: the next word does. */
const RUNNERS = new Set(["bun", "npm", "pnpm", "yarn"]);
/** Words that a pattern can hold as they are. */
const PLAIN = /^[^\s*()?[\]{}"'`$\\]+$/;
const MAX_RULES = 3;

/**
 * Returns rules that together cover this call and others like it: for a command its program and subcommand, or the
 * whole command; for a file that file; else the tool. Empty when no rule can be shown that covers it.
 */
export function suggestRules(view: CallView): string[] {
  const rules = candidates(view);
  if (rules.length === 0 || rules.length > MAX_RULES) return [];
  const parsed = rules.map(parseRule);
  // A person allows what is shown: it must be what counts.
  return isCovered(parsed, view) ? rules : [];
}

function isCovered(rules: ReturnType<typeof parseRule>[], view: CallView): boolean {
  if (view.kind !== "command") return coveredBy(rules, view) !== null;
  return (view.commandLine ?? []).every(
    (command) =>
      isHarmless(command) || rules.some((rule) => rule.kind === "pattern" && rule.command.covers(command)),
  );
}

function candidates(view: CallView): string[] {
  const { tool } = view.call;
  if (tool === null || view.tool === undefined) return [];
  if (view.kind === undefined || view.tool.subject === undefined) return [tool];
  if (view.kind === "command") {
    // Without a line, such as a request of a tool that has no command, only the tool itself can be named.
    const line = view.commandLine ?? [];
    const asked = line.filter((command) => !isHarmless(command));
    const of = asked.length > 0 ? asked : line;
    const patterns = of.map(patternOf);
    return patterns.some((pattern) => pattern === null)
      ? []
      : [...new Set(patterns.map((pattern) => `${tool}(${pattern})`))];
  }
  const target = view.targets.at(-1);
  if (target === undefined) return [];
  const path = target.relative?.join("/") ?? patternToOpen(`/${target.absolute.join("/")}`, view.projectDir);
  if (/\p{C}/u.test(path)) return [];
  return PLAIN.test(path) || /^[^*?()[\]{}\\]+(?:\/\*\*)?$/.test(path) ? [`${tool}(${path})`] : [];
}

/** null for words that a pattern can't hold. */
function patternOf({ words }: SimpleCommand): string | null {
  // Characters that no terminal shows would hide what is allowed.
  const texts = words.map(({ text, dynamic }) =>
    dynamic || !PLAIN.test(text) || /\p{C}/u.test(text) ? null : text,
  );
  const [program, subcommand, third] = texts;
  if (!program) return null;
  if (WITH_SUBCOMMANDS.has(program) && subcommand && !subcommand.startsWith("-")) {
    const runs = RUNNERS.has(program) && /^(?:run|exec|x)$/.test(subcommand);
    if (!runs) return `${program} ${subcommand} *`;
    return third && !third.startsWith("-") ? `${program} ${subcommand} ${third} *` : null;
  }
  return texts.includes(null) ? null : texts.join(" ");
}
