/** Splits lists of tool rules. */

/** Splits a list of tool rules as users and other products write it: `Read,Grep` or `Read Bash(git *)`. */
export function splitToolRules(listed: string): string[] {
  const rules: string[] = [];
  let rule = "";
  let depth = 0;
  const end = (): void => {
    if (rule !== "") rules.push(rule);
    rule = "";
  };
  for (const char of listed) {
    if (depth === 0 && SEPARATOR.test(char)) {
      end();
      continue;
    }
    if (char === "(") depth++;
    if (char === ")") depth = Math.max(0, depth - 1);
    rule += char;
  }
  end();
  // Any other text is one rule, whose parser explains what is wrong with it.
  const parts = rules.length > 0 && rules.every((part) => RULE.test(part)) ? rules : [listed.trim()];
  return parts.map(ownForm);
}

const SEPARATOR = /[\s,]/;
/** `*`, a device path, or a name with or without a pattern. */
const RULE = /^(?:\*|\/\S+|[A-Za-z_*][\w.:*-]*(?:\(.*\))?)$/s;

/** `Bash(git:*)`, as other products write it, is `Bash(git *)` here. */
function ownForm(rule: string): string {
  return rule.replace(/:\*\)$/, " *)");
}
