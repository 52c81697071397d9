import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage } from "./support/requests.ts";
import { listed } from "./support/runs.ts";

const CAPITALS = (request: RecordedRequest) => ({ text: firstUserMessage(request).toUpperCase() });

/** Lines that mean the same in bash: what they print on stdout, their files and their exit code are equal. */
const LINES = readFileSync(join(import.meta.dir, "support/shell-lines.txt"), "utf8")
  .trimEnd()
  .split("\n----\n");

describe("rnix sh beside bash", () => {
  test("the same output, files and exit codes", async () => {
    await using machine = new Machine();
    await machine.model(CAPITALS);
    const folder = (name: string): string => {
      const dir = join(machine.project, name);
      mkdirSync(join(dir, "sub"), { recursive: true });
      for (const file of ["a.txt", "b.txt", "sub/inner"]) machine.write(join(name, file), `${file}\n`);
      return dir;
    };
    const filesOf = (dir: string) =>
      readdirSync(dir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => [name, readFileSync(join(parentPath, name), "utf8")])
        .filter(([name]) => name !== "e")
        .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
    await machine.ok(["sh", "-c", "true"]);
    const different: unknown[] = [];
    const waiting = LINES.entries();
    const work = async (): Promise<void> => {
      for (const [index, line] of waiting) {
        const [ours, theirs] = [folder(`ours${index}`), folder(`theirs${index}`)];
        const args = ["-c", line, "name", "first one", "second"];
        const [got, expected] = await Promise.all([
          machine.run(["sh", ...args], { cwd: ours }),
          Bun.spawn(["bash", ...args], { cwd: theirs, stdin: null, stderr: "ignore" }),
        ]);
        const stdout = await new Response(expected.stdout).text();
        const a = { stdout: got.stdout, code: got.code, files: filesOf(ours) };
        const b = { stdout, code: await expected.exited, files: filesOf(theirs) };
        if (!Bun.deepEquals(a, b)) different.push({ line, rnix: a, bash: b, stderr: got.stderr });
      }
    };
    await Promise.all([work(), work(), work(), work()]);
    expect(different).toEqual([]);
  });
});

describe("rnix sh", () => {
  test.concurrent("agents in pipes: input, answer, exit code, options, files of devices", async () => {
    await using machine = new Machine();
    const model = await machine.model((request) =>
      firstUserMessage(request).startsWith("fail")
        ? { fault: { kind: "status", status: 400, message: "no" } }
        : CAPITALS(request),
    );
    const { stdout } = await machine.ok([
      "sh",
      "-c",
      'spawn "find flaky tests" | spawn "fix each" --label fixer',
    ]);
    expect(stdout).toContain("FIX EACH");
    expect(stdout).toContain("FIND FLAKY TESTS");
    expect(model.requests).toHaveLength(2);
    machine.write(
      "job.sh",
      `#!/usr/bin/env -S rnix sh
X=$(spawn "name it" --max-steps 3)
echo "$X $1 $#" > out.txt
spawn fail 2> notes.txt || echo "failed with $?"
spawn one & spawn two & wait
cat /proc/self/intent | tr a-z A-Z
echo piped | spawn "use the input" | wc -l
cat < /proc/self/intent > copy.txt
exit 4
`,
    );
    const script = await machine.run(["sh", "./job.sh", "--arg", "b"]);
    expect(script.stdout).toStartWith("failed with 1\n");
    expect(script.stdout).toContain("SH JOB.SH --ARG B");
    expect(script.code).toBe(4);
    expect(machine.read("out.txt")).toBe("NAME IT --arg 2\n");
    expect(machine.read("notes.txt")).toContain("did not complete (llm_error)");
    expect(machine.read("copy.txt")).toContain("sh job.sh --arg b");
    expect(script.stderr).toBe("");
    const [run] = (await listed(machine)).filter(({ intent }) => intent.startsWith("sh job.sh"));
    expect(run).toMatchObject({ exit_code: 4, exit_reason: "failed", workflow: { name: "job.sh" } });
    expect(run?.children).toHaveLength(5);
  });
});
