import { expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { binary } from "../../support/binary.ts";
import { Machine } from "../../support/machine.ts";
import { calls, says } from "../../support/scenes.ts";

/** A command that waits for a pipe or reads a device without end takes longer. */
const SOON_MS = 15_000;

async function soon<T>(work: Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await work;
  expect(performance.now() - began).toBeLessThan(SOON_MS);
  return result;
}

function fifo(path: string): string {
  mkdirSync(dirname(path), { recursive: true });
  expect(Bun.spawnSync(["mkfifo", path]).exitCode).toBe(0);
  return path;
}

test("flags refuse devices and folders at once", async () => {
  await using machine = new Machine();
  await machine.model([says("done")]);
  const pipe = fifo(join(machine.elsewhere, "pipe"));
  const image = join(machine.elsewhere, "picture.png");
  symlinkSync("/dev/zero", image);
  const refused: [flag: string, value: string, why: RegExp][] = [
    ["--system-prompt", "@/dev/zero", /--system-prompt: \/dev\/zero: expected a file, found a device/],
    ["--system-prompt", `@${machine.elsewhere}`, /expected a file, found a folder/],
    ["--output-schema", "/dev/zero", /--output-schema: \/dev\/zero: expected a file, found a device/],
    ["--add", image, /neither a file nor a folder/],
    ["--add", pipe, /neither a file nor a folder/],
  ];
  await Promise.all(
    refused.map(async ([flag, value, why]) => {
      const { code, stderr } = await soon(machine.run(["spawn", "go", flag, value]));
      expect(stderr).toMatch(why);
      expect(code).toBe(64);
    }),
  );
});

test("a process substitution is read", async () => {
  await using machine = new Machine();
  const model = await machine.model([says('{"n":1}')]);
  const schema =
    '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}';
  const line = `'${binary()}' spawn go --system-prompt @<(sleep 0.2; echo Be brief.) --output-schema <(echo '${schema}')`;
  const child = Bun.spawn(["bash", "-c", line], {
    cwd: machine.project,
    env: machine.env,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect({ code: await child.exited, out, err }).toMatchObject({ code: 0, out: '{"n":1}\n' });
  expect(model.requests[0]?.text).toContain("Be brief.");
});

test("a pipe or a device in a project delays no command and no run", async () => {
  await using machine = await Machine.playing({
    go: [calls(["Write", { path: "new.txt", content: "x" }]), says("done")],
  });
  const places = [
    ...["AGENTS.md", ".mcp.json", ".rnix/config.yaml", ".rnix/providers.yaml", ".rnix/init.yaml"],
    ...[".rnix/agents/a/agent.yaml", ".rnix/agents/a/instructions.md", ".rnix/skills/b/SKILL.md"],
    ...[".rnix/plugins/c.ts", "plugins/d.ts", ".git", ".env", "bunfig.toml", "package.json"],
  ];
  for (const place of places) {
    for (const make of [fifo, (path: string) => void symlinkSync("/dev/zero", path)]) {
      const path = join(machine.project, place);
      mkdirSync(dirname(path), { recursive: true });
      make(path);
      const { code, stderr } = await soon(machine.run(["spawn", "go", "--timeout", "20s"]));
      const refused = /expected a file(, found a (FIFO|device)| inside the project, found a link)/.test(
        stderr,
      );
      expect({ place, code, stderr }).toMatchObject({ code: refused && code !== 0 ? 64 : 0 });
      rmSync(path);
    }
  }
});
