import { expect, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { located } from "../../../src/store/runs/relocate.ts";
import { procInfo } from "../../support/samples.ts";
import { temporaryFolder } from "../support.ts";

const FROM = "/home/me/old";
const TO = "/home/me/new";

test("a record that was moved with its project belongs to the new folder, and its denied rights stay denied", () => {
  const info = procInfo({
    project: FROM,
    cwd: `${FROM}/sub`,
    permissions: {
      allow: [["Read", `Write(${FROM}/**)`, `Bash(ls ${FROM})`, `Read(${FROM}er/x)`, `Read(/x${FROM}/y)`]],
      deny: [`Read(${FROM}/secret)`, "Write(.env)"],
      revoked: [{ rule: `Read(${FROM}/a)`, by: "u2" }],
    },
    env: {
      names: ["PATH", "PWD"],
      values: { PATH: `${FROM}/bin:/usr/bin`, PWD: `${FROM}/sub`, HOME: "/home/me" },
    },
  });
  expect(located(info, `${FROM}/.rnix/data`, `${TO}/.rnix/data`)).toEqual({
    ...info,
    project: TO,
    cwd: `${TO}/sub`,
    permissions: {
      allow: [["Read", `Write(${TO}/**)`, `Bash(ls ${TO})`, `Read(${FROM}er/x)`, `Read(/x${FROM}/y)`]],
      deny: [`Read(${FROM}/secret)`, "Write(.env)", `Read(${TO}/secret)`],
      revoked: [
        { rule: `Read(${FROM}/a)`, by: "u2" },
        { rule: `Read(${TO}/a)`, by: "u2" },
      ],
    },
    env: {
      names: ["PATH", "PWD"],
      values: { PATH: `${TO}/bin:/usr/bin`, PWD: `${TO}/sub`, HOME: "/home/me" },
    },
    moved_from: FROM,
  });
});

test("a record whose data folder alone was moved, or was named by the user, stays in its project", () => {
  const info = procInfo({ project: FROM, cwd: FROM });
  expect(located(info, "/data/a", "/data/b")).toEqual({ ...info, moved_from: "/data/a" });
  expect(located(info, "/data/a", `${TO}/.rnix/data`)).toEqual({ ...info, moved_from: "/data/a" });
});

test("the same folder by another name is the same", () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "real"));
  symlinkSync("real", join(folder, "named"));
  const info = procInfo();
  expect(located(info, join(folder, "named"), join(folder, "real"))).toBe(info);
  expect(located(info, join(folder, "real"), join(folder, "named"))).toBe(info);
});
