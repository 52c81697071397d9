/** A path as a list of segments. */

/** A path, split into segments. */
export interface PathSegments {
  /** Segments from the root. */
  absolute: readonly string[];
  /** Segments from the project's folder; null outside of it. */
  relative: readonly string[] | null;
}
