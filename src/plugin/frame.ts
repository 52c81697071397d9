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

/** The tag itself if the text does not use it, else the tag with the lowest number that the text does not use. */
function unusedTag(tag: string, text: string): string {
  // Case, spaces and a slash count as nothing: a model reads `< /TAG` as the end, too.
  const uses = new RegExp(`<[\\s/]*${tag}(?:-(\\d+))?(?![\\w-])`, "gi");
  const taken = new Set<string>();
  for (let use = uses.exec(text); use !== null; use = uses.exec(text)) taken.add(use[1] ?? "1");
  let free = 1;
  while (taken.has(String(free))) free += 1;
  return free === 1 ? tag : `${tag}-${free}`;
}
