import { expect, test } from "bun:test";
import { defaultSettings } from "../../../src/config/settings/settings.ts";
import { providerFacts } from "../../../src/kernel/process/process-info.ts";
import type { ProviderChoice, SpawnOpts } from "../../../src/kernel/types.ts";
import {
  requireFolders,
  restoredEnvironment,
  resumeDifferences,
} from "../../../src/server/plan/plan-resume.ts";
import { Namespace } from "../../../src/vfs/namespace.ts";
import { procInfo } from "../../support/samples.ts";
import { TempDir } from "../support/fixture.ts";

const info = procInfo({
  env: { names: ["DB", "PATH", "SSH_TTY", "TOKEN"], values: { PATH: "/bin" } },
  versions: { rnix: "1", fs: "a", jira: "b", shell: "c" },
});

function today(env: Record<string, string>, versions: Record<string, string>): SpawnOpts {
  return {
    project: { id: "p", dir: "/p", dataDir: "/p/data", trusted: false },
    devices: { namespace: new Namespace([]), versions, release: () => undefined },
    provider: null,
    cwd: "/p",
    env,
    limits: defaultSettings().values,
  };
}

test("a resumed run has its recorded variables, and no others", () => {
  expect(restoredEnvironment(info, { PATH: "/bin", DB: "today's", NEW: "other" })).toEqual({
    PATH: "/bin",
    DB: "today's",
  });
});

test("missing and changed parts are named; session variables are not", () => {
  const opts = today({ PATH: "/bin", DB: "d" }, { fs: "a", shell: "other", more: "1" });
  expect(resumeDifferences(info, opts)).toEqual([
    "variables that it had and are not in this environment: TOKEN",
    "plugins that have changed since it ran: shell",
    "plugins that it had and are not loaded now: jira",
  ]);
  const { rnix: _rnix, ...versions } = info.versions;
  expect(resumeDifferences(info, today({ PATH: "", DB: "", TOKEN: "" }, versions))).toEqual([]);
});

test("a changed provider behind the same name is reported, without secrets of its address", () => {
  const choice = (more: Partial<ProviderChoice>): ProviderChoice => ({
    name: "openai",
    device: "/dev/llm/openai",
    model: "m",
    config: {},
    gateKey: "",
    because: "",
    secret: async () => "key",
    ...more,
  });
  const before = choice({ config: { base_url: "https://me:secret@one.example/v1?key=secret" } });
  const facts = providerFacts(before);
  expect(facts).toEqual({
    driver: "openai",
    base_url: "https://one.example/v1",
    context_window: null,
    max_output: null,
  });
  const changed = (provider: ProviderChoice): string[] => {
    const { rnix: _rnix, ...versions } = info.versions;
    const opts = { ...today({ PATH: "", DB: "", TOKEN: "" }, versions), provider };
    return resumeDifferences({ ...info, provider_facts: facts }, opts);
  };
  expect(changed(before)).toEqual([]);
  expect(
    changed(
      choice({ device: "/dev/llm/other", config: { base_url: "http://two.example" }, contextWindow: 8000 }),
    ),
  ).toEqual([
    "its provider openai is not what it was: the driver was openai and is other; the address was https://one.example/v1 and is http://two.example/; the context window was not set and is 8000",
  ]);
  expect(changed(choice({ name: "another" }))).toEqual([]);
});

test("many names are counted", () => {
  const names = Array.from({ length: 13 }, (_, i) => `V${i}`);
  const [line] = resumeDifferences({ ...info, env: { names, values: {} } }, today({}, info.versions));
  expect(line).toEndWith("V8, V9 and 3 more");
});

test.each(["project", "cwd"] as const)("a missing %s is named", (which) => {
  using dir = new TempDir();
  const there = { ...info, project: dir.path, cwd: dir.path };
  requireFolders(there);
  expect(() => requireFolders({ ...there, [which]: "/not/there" })).toThrow(/\/not\/there, no longer exists/);
});
