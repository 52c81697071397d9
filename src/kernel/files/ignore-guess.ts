/** Finds names that surely match no ignore pattern, so that git need not be asked about them. */

/** If the patterns have more characters, git decides about each name. */
const MAX_CHARACTERS = 200_000;

/** Finds names that no pattern of an ignore file can match. A pattern counts by how it begins and ends. */
export class IgnoreGuess {
  readonly #names = new Set<string>();
  readonly #loose: { start: string; end: string }[] = [];
  readonly #isUnsure: boolean;

  /** `text`: of an ignore file; null when it can't be read. */
  constructor(text: string | null) {
    this.#isUnsure = text === null || text.length > MAX_CHARACTERS;
    if (text !== null && !this.#isUnsure) for (const line of text.toLowerCase().split("\n")) this.#add(line);
  }

  /** Whether a pattern may match this path or a folder above it. */
  mayMatch(path: string): boolean {
    if (this.#isUnsure) return true;
    return path
      .toLowerCase()
      .split("/")
      .some(
        (name) =>
          this.#names.has(name) ||
          this.#loose.some(({ start, end }) => name.startsWith(start) && name.endsWith(end)),
      );
  }

  /** The last part of a pattern matches the last part of a path, so the others can be left out. */
  #add(line: string): void {
    if (line.startsWith("#")) return;
    const pattern = line
      .trimEnd()
      .replace(/^!/, "")
      .replace(/(?:\/\*\*|\/)+$/, "");
    if (pattern === "") return;
    const last = pattern.slice(pattern.lastIndexOf("/") + 1);
    const special = last.search(/[*?[\\]/);
    if (special < 0) this.#names.add(last);
    else {
      const end = last.slice(Math.max(last.lastIndexOf("*"), last.lastIndexOf("?")) + 1);
      // What a set or an escape stands for is not looked at.
      this.#loose.push({ start: last.slice(0, special), end: /[[\\]/.test(last) ? "" : end });
    }
  }
}
