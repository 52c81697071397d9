import { createHash } from "node:crypto";

/**
 * A text from outside in a frame that it cannot close: `<tag>`, or `<tag-2>` and so on where the text has that tag
 * itself. The same text always gets the same frame, so a run that is resumed is told the same.
 */
export function framed(tag: string, text: string, attributes: Readonly<Record<string, string>> = {}): string {
  const given = Object.entries(attributes).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
  const head = given.join("");
  const own = unusedTag(tag, head + text);
  return `<${own}${head}>\n${text}\n</${own}>`;
}

const MAX_NUMBERED = 9;

/**
 * The tag, with the lowest number that the text does not use; where it uses them all, with a hash of the text, which no
 * text can hold of itself.
 */
function unusedTag(tag: string, text: string): string {
  if (!uses(text, tag)) return tag;
  for (let number = 2; number <= MAX_NUMBERED; number++)
    if (!uses(text, `${tag}-${number}`)) return `${tag}-${number}`;
  return `${tag}-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
}

/** Spaces, a slash and capitals make no other tag of it. */
function uses(text: string, tag: string): boolean {
  return new RegExp(`<[\\s/]*${tag}(?![\\w-])`, "i").test(text);
}
