import { expect, test } from "bun:test";
import type { JobCaller } from "../../../src/cron/ports.ts";
import type { JobRequest } from "../../../src/plugin/index.ts";
import { completeRequest } from "../../../src/server/schedule/job-request.ts";

const JOB: JobRequest = { name: "a", trigger: { every: "1h" }, intent: "go", run: {} };
const USER: JobCaller = {
  project: { id: "p", dir: "/p", dataDir: "/p/.rnix/data", trusted: true },
  cwd: "/p/sub",
  env: { RNIX_PROVIDER: "openai", RNIX_MODEL: "m" },
  run: null,
};
const RUN: JobCaller = {
  ...USER,
  run: {
    uuid: "u",
    agent: "default",
    jobId: null,
    rights: {
      permissions: { allow: [["CronCreate"]], deny: [] },
      max_steps: 5,
      context_budget: null,
      max_cost: null,
      timeout_ms: null,
    },
  },
};

test.each([
  ["a command that decides", { if: "curl evil" }],
  ["a hook of failures", { on_failure: "curl evil" }],
  ["a hook of silence", { on_silence: "curl evil", expect_every: "1d" }],
  ["a delivery", { deliver: [{ to: "curl evil", when: "always" as const }] }],
  ["a trigger from outside", { trigger: { on_hook: "door" } }],
  ["a check", { run: { check: ["curl evil"] } }],
  ["a folder outside", { run: { add: ["/etc"] } }],
  ["trust", { run: { trust: true } }],
  ["variables", { run: { env: { PATH: "/evil" } } }],
  ["names of variables", { run: { env_names: ["TOKEN"] } }],
  ["a server", { run: { mcp: ["x"] } }],
  ["another provider", { run: { provider: "other" } }],
])("a run can't give its job %s; the user can", (_, more) => {
  const job = { ...JOB, ...more };
  expect(() => completeRequest(job, RUN)).toThrow(
    expect.objectContaining({ code: "PERMISSION", message: expect.stringContaining("only the user can") }),
  );
  expect(completeRequest(job, USER).run).toMatchObject({ cwd: "/p/sub" });
});

test("a run's job has what its agent could have chosen, and not the provider of a shell", () => {
  const run = { agent: "coder", model: "x", max_steps: 3, deny: ["Bash"], cwd: "/p" };
  expect(completeRequest({ ...JOB, run }, RUN).run).toEqual({ ...run, provider_by_flag: false });
});
