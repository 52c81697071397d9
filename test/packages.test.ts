import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../package.json";

const ROOT = join(import.meta.dir, "..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

// What npm then really brings is looked at by .ci/run.
test("npm finds Bun alone: what else is needed stands where .npmrc leaves it out", () => {
  expect(Object.keys(packageJson.dependencies)).toEqual(["bun"]);
  expect(read(".npmrc")).toMatch(/^omit=dev$/m);
  // An install script that package.json does not allow would leave npm's Bun without its program.
  expect(Object.keys(packageJson.allowScripts)).toEqual(["bun"]);
});

test("Bun brings the rest, although it reads .npmrc", () => {
  expect(Bun.TOML.parse(read("bunfig.toml"))).toMatchObject({ install: { dev: true } });
});

test("every package is pinned, in package.json and in the one lock file, which names no registry", () => {
  const { dependencies, devDependencies } = packageJson;
  for (const version of Object.values({ ...dependencies, ...devDependencies })) {
    expect(version).toMatch(/^(?:npm:[a-z]+@)?\d+\.\d+\.\d+$/);
  }
  expect(read(".npmrc")).toMatch(/^package-lock=false$/m);
  const locks = readdirSync(ROOT).filter((file) => /[-.](lock|lockb|shrinkwrap)\b/.test(file));
  expect(locks).toEqual(["bun.lock"]);
  expect(read("bun.lock")).not.toContain("://");
});
