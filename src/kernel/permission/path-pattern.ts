import { fitsWithin, matchesBelow, matchPath, matchWild, segments } from "./glob.ts";
import type { PathSegments } from "./path-segments.ts";
import { countProtected, namesProtected, type Protection } from "./protected-paths.ts";

/** `src/**`, relative to the project; `/data/**`, absolute. A folder's name with a slash is all that is in it. */
export class PathPattern {
  readonly #absolute: boolean;
  readonly #parts: readonly string[];
  readonly #folded: readonly string[];
  /** Why this cannot be a path pattern, if so. */
  readonly problem: string | undefined;

  constructor(text: string) {
    this.#absolute = text.startsWith("/");
    this.#parts = segments(text.endsWith("/") ? `${text}**` : text).filter((part) => part !== ".");
    this.#folded = this.#parts.map(fold);
    this.problem = problemOf(text, this.#parts);
  }

  covers(target: PathSegments): boolean {
    if (this.problem !== undefined) return false;
    const path = this.#absolute ? target.absolute : target.relative;
    return path !== null && matchPath(this.#parts, path);
  }

  /** Whether it names what is protected at this target. */
  names(target: PathSegments, protection: Protection): boolean {
    const path = this.#absolute ? target.absolute : target.relative;
    return (
      path !== null && namesProtected(this.#parts, path, protection, target.absolute.length - path.length)
    );
  }

  /** Protected names that stand in it, each with how often. */
  get protectedNames(): ReadonlyMap<string, number> {
    return countProtected(this.#parts);
  }

  /** Whether it covers some target below this folder. */
  coversBelow(folder: PathSegments): boolean {
    if (this.problem !== undefined) return false;
    const path = this.#absolute ? folder.absolute : folder.relative;
    return path !== null && matchesBelow(this.#parts, path);
  }

  /** Whether every target that the other pattern covers is covered by this one. */
  contains(other: PathPattern): boolean {
    if (this.problem !== undefined || this.#absolute !== other.#absolute) return false;
    return matchWild(
      this.#parts,
      other.#parts,
      "**",
      (wanted, part) => part !== "**" && fitsWithin(wanted, part),
    );
  }

  /** For deny rules: ignores case, as some file systems do. */
  denies(target: PathSegments): boolean {
    const path = this.#absolute ? target.absolute : target.relative;
    return path !== null && matchPath(this.#folded, path.map(fold));
  }

  /** Whether the folder holds what is denied, as far as the pattern names it: `secret/**` lies below the project. */
  deniesBelow(folder: PathSegments): boolean {
    const path = this.#absolute ? folder.absolute : folder.relative;
    return path !== null && this.#liesBelow(path.map(fold));
  }

  #liesBelow(folder: readonly string[]): boolean {
    const wild = this.#folded.findIndex((part) => /[*?]/.test(part));
    const named = wild < 0 ? this.#folded : this.#folded.slice(0, wild);
    return folder.length < named.length && folder.every((part, i) => part === named[i]);
  }
}

function fold(part: string): string {
  return part.normalize("NFC").toLowerCase();
}

function problemOf(text: string, parts: readonly string[]): string | undefined {
  if (parts.includes("..")) return '".." in it: write the absolute path';
  if (/[{}]/.test(text)) return "braces in it: write one rule for each";
  if (text.startsWith("~")) return 'a "~": write the absolute path';
  return undefined;
}
