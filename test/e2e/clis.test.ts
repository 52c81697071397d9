import { expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { standIn } from "../plugins/programs/stand-in.ts";
import { Machine } from "./support/machine.ts";

/** Installs a program instead of the Cursor CLI, and its key. */
function withCursor(machine: Machine): void {
  const bin = join(machine.elsewhere, "bin");
  mkdirSync(bin);
  standIn(bin, "cursor-agent", { "": { recorded: "cursor-answer.jsonl" } });
  Object.assign(machine.env, { PATH: `${bin}:${machine.env.PATH}`, CURSOR_API_KEY: "cursor-key-0123456789" });
}

const YES = "providers:\n  cursor:\n    allow_unconfined: true\n";
const spawn = (...more: string[]) => ["spawn", "--no-daemon", "--output", "json", ...more, "hello"];

test("a model whose program is not confined needs the user's setting, however the run names it", async () => {
  await using machine = new Machine();
  withCursor(machine);
  const named = await machine.run(spawn("--provider", "cursor"));
  expect(named.code).toBe(69);
  expect(named.stderr).toContain("unconfined");
  expect(named.stderr).toContain("allow_unconfined: true");
  const { stdout } = await machine.run(["providers"]);
  expect(stdout).toMatch(/cursor .* no .*unconfined/);

  // Only the user's own file may set it.
  machine.write(".rnix/providers.yaml", YES);
  const byProject = await machine.run(spawn("--provider", "cursor", "--trust"));
  expect(byProject.code).toBe(64);
  expect(byProject.stderr).toContain("only your own ~/.config/rnix/providers.yaml");
});

test("a missing program is reported before the run spends anything", async () => {
  await using machine = new Machine();
  const run = await machine.run(spawn("--provider", "claude", "--model", "sonnet"));
  expect(run.code).toBe(69);
  expect(run.stderr).toContain("npm install -g @anthropic-ai/claude-code");
  // Nor has it a model to offer: that is not what is wrong.
  const bare = await machine.run(spawn("--provider", "claude"));
  expect(bare).toMatchObject({ code: 69, stderr: expect.stringContaining("Its program is not found") });
});

test("with the user's setting it answers, and the run says that it is not confined", async () => {
  await using machine = new Machine();
  withCursor(machine);
  machine.write(join(machine.configDir, "providers.yaml"), YES);
  const run = await machine.run(spawn("--provider", "cursor"));
  const receipt = JSON.parse(run.stdout);
  expect(receipt).toMatchObject({ exit_code: 0, result: "hello from the model", sandbox: "unconfined" });
  const again = await machine.run(["spawn", "--no-daemon", "--provider", "cursor", "hello"]);
  expect(again.stderr).toContain("unconfined: the model's program works with tools of its own");
  expect(machine.search("cursor-key-0123456789").filter((file) => !file.startsWith("elsewhere/"))).toEqual(
    [],
  );
});
