import { expect, test } from "bun:test";
import { defaultSettings } from "../../../src/config/settings/settings.ts";
import type { Sandbox } from "../../../src/sandbox/policy.ts";
import {
  chooseSandbox,
  refuseUnconfined,
  type WantedSandbox,
  wantedSandbox,
} from "../../../src/server/plan/choose-sandbox.ts";
import type { PlacedSpawn } from "../../../src/server/plan/request-defaults.ts";

const PARENT = {
  confinement: { level: "project", mechanism: "bubblewrap", program: "/usr/bin/bwrap" } satisfies Sandbox,
};

function wanted(mode: WantedSandbox["mode"]): WantedSandbox {
  return { mode, level: "project", isDefault: false };
}

test("a model whose program works outside is refused where a sandbox is required, and to a child of a confined run", () => {
  expect(refuseUnconfined(wanted("off"), undefined)).toBeUndefined();
  expect(refuseUnconfined(wanted("auto"), {})).toBeUndefined();
  expect(() => refuseUnconfined(wanted("required"), undefined)).toThrow("outside of it");
  expect(() => refuseUnconfined(wanted("off"), PARENT)).toThrow("outside of it");
});

const RUN: PlacedSpawn = { intent: "do it", cwd: "/w", env: {} };
const ATTENDED: PlacedSpawn = { ...RUN, attended: true };
type Mode = WantedSandbox["mode"];
const CASES: [string, PlacedSpawn, { sandbox?: Mode }, string, Mode][] = [
  ["a person at a terminal", ATTENDED, {}, "unattended", "off"],
  ["no terminal", RUN, {}, "unattended", "auto"],
  ["CI", { ...ATTENDED, env: { CI: "true" } }, {}, "unattended", "auto"],
  ["--on-ask deny", { ...ATTENDED, on_ask: "deny" }, {}, "unattended", "auto"],
  ["the user's setting", ATTENDED, {}, "auto", "auto"],
  ["the agent before the setting", RUN, { sandbox: "off" }, "required", "off"],
  ["the flag before the agent", { ...RUN, sandbox: "off" }, { sandbox: "required" }, "auto", "off"],
];

for (const [title, request, agent, setting, mode] of CASES) {
  test(`the sandbox of a run: ${title}`, () => {
    const { words } = defaultSettings();
    expect(wantedSandbox(request, agent, { words: { ...words, sandbox: setting } }).mode).toBe(mode);
  });
}

test("a default is announced once where none can be made; a child has what its parent has", async () => {
  const notices: string[] = [];
  let isFirst = true;
  const ports = {
    probe: async () => ({ works: false as const, why: "it is missing", advice: "install it" }),
    warn: (text: string) => void notices.push(text),
    isFirstNotice: () => isFirst,
  };
  const byDefault: WantedSandbox = { mode: "auto", level: "read-only", isDefault: true };
  expect(await chooseSandbox(byDefault, undefined, ports)).toBeUndefined();
  isFirst = false;
  await chooseSandbox(byDefault, undefined, ports);
  await chooseSandbox(byDefault, {}, ports);
  expect(notices).toEqual(["no sandbox: it is missing. To have one, install it"]);
  expect((await chooseSandbox(byDefault, PARENT, ports))?.level).toBe("read-only");
});
