/** Formats the issues of a zod error in one line: `field: message; field: message`. */

const MAX_ISSUES = 10;

interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** `root` stands for the whole value, whose path is empty. */
export function issueText({ issues }: { issues: readonly Issue[] }, root = "it"): string {
  const lines = issues
    .slice(0, MAX_ISSUES)
    .map(({ path, message }) => `${path.map(String).join(".") || root}: ${message}`);
  if (issues.length > MAX_ISSUES) lines.push(`and ${issues.length - MAX_ISSUES} more`);
  return lines.join("; ");
}
