/** Splits a Markdown file into its front matter and its body. */

export interface FrontMatter {
  /** YAML, or what a product writes in its place. It begins in line 2 of the file. */
  front: string;
  body: string;
}

const FRONT_MATTER = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/;

/** null for a file without front matter. */
export function splitFrontMatter(content: string): FrontMatter | null {
  const match = FRONT_MATTER.exec(content);
  return match && { front: match[1] ?? "", body: content.slice(match[0].length).trim() };
}
