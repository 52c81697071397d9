/** What mechanisms without mounts may grant for a list of mounts. */
import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { grantsOf } from "../../src/sandbox/grants.ts";
import { bindRead, bindWrite, hidden } from "../../src/sandbox/policy.ts";
import { seatbeltProfile } from "../../src/sandbox/seatbelt.ts";
import { Folder } from "../support/folder.ts";

test("grants of the temporary folder only what is given where something is closed in it, and a project whole", () => {
  using folder = new Folder();
  const at = (...names: string[]): string => join(folder.dir, ...names);
  for (const name of ["home/.ssh", "home/docs", "home/bin", "other", "p/.rnix/data", "private"])
    mkdirSync(at(name), { recursive: true });
  writeFileSync(at("home/.gitconfig"), "");
  symlinkSync(at("home"), at("link"));
  const mounts = [
    bindWrite(at("private"), at("link")),
    bindRead(at("home/docs")),
    bindRead(at("home/.gitconfig")),
    bindWrite(at("p")),
    bindRead(at("p/.git")),
    hidden(at("p/.rnix/data"), "folder"),
    bindRead(at("no-such-file")),
  ];
  const { read, write } = grantsOf(mounts, at("p"));
  const here = (paths: string[]): string[] => paths.filter((path) => path.startsWith(folder.dir)).sort();
  expect(here(read)).toEqual([at("home/.gitconfig"), at("home/docs")]);
  expect(here(write)).toEqual([at("p"), at("private")]);
  expect(read.filter((path) => path === "/" || path === "/dev")).toEqual([]);
});

test("a profile of Seatbelt has a rule for each mount, in their order", () => {
  const mounts = [
    bindWrite("/run/temp", "/tmp"),
    bindWrite("/run/home", "/Users/a"),
    bindRead("/Users/a/.gitconfig"),
    bindWrite("/Users/a/p"),
    bindRead("/Users/a/p/.git/hooks"),
    hidden("/Users/a/p/.rnix/data", "folder"),
  ];
  expect(seatbeltProfile(mounts)).toBe(
    [
      "(version 1)",
      "(allow default)",
      '(deny file-write* (subpath "/"))',
      '(allow file-write* (subpath "/dev"))',
      '(allow file-write* (subpath "/private/tmp"))',
      '(allow file-write* (subpath "/private/var/tmp"))',
      '(allow file-read* file-write* (subpath "/run/temp"))',
      '(deny file-read* file-write* (subpath "/Users/a"))',
      '(allow file-read* file-write* (subpath "/run/home"))',
      '(deny file-write* (subpath "/Users/a/.gitconfig"))',
      '(allow file-read* (subpath "/Users/a/.gitconfig"))',
      '(allow file-read* file-write* (subpath "/Users/a/p"))',
      '(deny file-write* (subpath "/Users/a/p/.git/hooks"))',
      '(allow file-read* (subpath "/Users/a/p/.git/hooks"))',
      '(deny file-read* file-write* (subpath "/Users/a/p/.rnix/data"))',
    ].join("\n"),
  );
});
