/** Compiles glob patterns to tests on paths. */

import { isAbsolute, join, resolve } from "node:path";
import { SyscallError } from "rnix/plugin";

const WILD = /[*?[\]{}!\\]/;

/** A glob as a test on paths relative to the search's start: without a slash it is about names alone. */
export function pathFilter(pattern: string): (relative: string) => boolean {
  const matcher = new Bun.Glob(pattern.replace(/^(?:\.\/)+/, ""));
  if (pattern.includes("/")) return (relative) => matcher.match(relative);
  return (relative) => matcher.match(relative.slice(relative.lastIndexOf("/") + 1));
}

/** The folder that the fixed part of a pattern leads to, and what remains of the pattern. */
export function splitPattern(pattern: string, path: string): { base: string; rest: string } {
  const parts = pattern.split("/").filter((part, index) => part !== "." && (part !== "" || index === 0));
  const wild = parts.findIndex((part) => WILD.test(part));
  const fixed = wild < 0 ? parts.length - 1 : wild;
  const rest = parts.slice(fixed);
  if (rest.length === 0 || rest.includes("..") || rest.join("/") === "") {
    const message = `The pattern ${JSON.stringify(pattern)} names no files. Expected something like **/*.ts; ".." only stands at its start.`;
    throw new SyscallError("INVALID", message);
  }
  const start = parts.slice(0, fixed).join("/");
  const base = isAbsolute(pattern) ? resolve("/", start) : join(path, start);
  return { base, rest: rest.join("/") };
}
