/** Wraps untrusted text in a tag. */

/**
 * Wraps untrusted text in a tag that it cannot close: `<tag>`, or `<tag-2>` and so on if the text contains that tag. The
 * same text always gets the same tag, so a resumed run sees the same prompt.
 */
export function framed(tag: string, text: string, attributes: Readonly<Record<string, string>> = {}): string {
  const given = Object.entries(attributes).map(([name, value]) => ` ${name}=${JSON.stringify(value)}`);
  const head = given.join("");
  const own = unusedTag(tag, head + text);
  return `<${own}${head}>\n${text}\n</${own}>`;
}

const MAX_NUMBERED = 9;

/** The tag with the lowest number that the text does not use, else with a hash of the text. */
function unusedTag(tag: string, text: string): string {
  if (!uses(text, tag)) return tag;
  for (let number = 2; number <= MAX_NUMBERED; number++)
    if (!uses(text, `${tag}-${number}`)) return `${tag}-${number}`;
  return `${tag}-${new Bun.CryptoHasher("sha256").update(text).digest("hex").slice(0, 16)}`;
}

/** Whether the text contains the tag, ignoring case, spaces and a slash. */
function uses(text: string, tag: string): boolean {
  return new RegExp(`<[\\s/]*${tag}(?![\\w-])`, "i").test(text);
}
