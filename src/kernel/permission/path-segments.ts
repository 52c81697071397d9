/** One target a path may mean. */
export interface PathSegments {
  /** From the root. */
  absolute: readonly string[];
  /** From the project's folder; null outside of it. */
  relative: readonly string[] | null;
}
