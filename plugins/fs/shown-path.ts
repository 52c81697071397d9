import { relative, sep } from "node:path";

/** How the model and the person see a path: relative to the working folder where it lies inside. */
export function shownPath(cwd: string, path: string): string {
  const inner = relative(cwd, path);
  if (inner === "") return ".";
  return inner === ".." || inner.startsWith(`..${sep}`) ? path : inner;
}
