import { describe, expect, test } from "bun:test";
import { installed } from "../../support/installed.ts";
import type { Turn } from "../../support/model-server/script.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { bash, says } from "../support/scenes.ts";
import { dropPrivileges } from "../support/unprivileged.ts";

/** The program that has started the command. In a namespace of its own, or joined from outside, it is none. */
const PARENT = "cat /proc/$PPID/comm 2>/dev/null || echo none";
const MAX_PROBES = 100;

/** Runs commands, one answer each, once a starter starts them. Returns what each has printed. */
async function run(machine: Machine, turns: Turn[], flags: string[] = []): Promise<string[]> {
  let first: number | undefined;
  const model = await machine.model((request) => {
    const answers = request.assistantMessages;
    if (first === undefined && answers < MAX_PROBES && toolResults(request).at(-1) !== "rnix")
      return bash(`: ${answers}; ${PARENT}`);
    first ??= answers;
    return turns[answers - first] ?? says("done");
  });
  await machine.ok(["spawn", "--no-stdin", "--sandbox", "required", "--max-steps", "200", ...flags, "do it"]);
  expect(first).toBeLessThan(MAX_PROBES);
  return toolResults(model.last).slice(first);
}

describe.if(installed("bwrap"))("commands of a run in a sandbox, after its first ones", () => {
  for (const who of ["root", "an ordinary user"] as const)
    test(`have the same ends, output and environment as outside, for ${who}`, async () => {
      await using machine = new Machine({ git: true });
      if (who === "an ordinary user") dropPrivileges(machine);
      const results = await run(machine, [
        bash("pwd; echo out; echo err >&2; exit 3"),
        bash("kill -KILL $$"),
        bash("kill -TERM $$"),
        bash('echo "$RNIX_CALL"'),
        bash('echo "$RNIX_CALL"'),
        bash("cat; echo no input"),
        bash("echo a | tee made; cat made"),
        bash("no-such-program"),
        bash("sleep 300 & echo left"),
        bash("pgrep -x sleep || echo none"),
        bash("echo one; sleep 0.2", "echo two", PARENT),
        bash("head -c 300000 /dev/zero | tr '\\0' x | wc -c"),
        bash("ps -o sid= -p $$ | tr -d ' '; echo $$"),
        bash("cat /proc/$PPID/environ"),
      ]);
      const [plain, killed, ended, key = "", other, ...rest] = results;
      expect(plain).toBe(`${machine.project}\nout\nerr\n[exit code 3]`);
      expect(killed).toBe("[ended by signal SIGKILL]");
      expect(ended).toBe("[ended by signal SIGTERM]");
      expect(key).toMatch(/\S/);
      expect(other).not.toBe(key);
      expect(rest.slice(0, 8)).toEqual([
        "no input",
        "a\na",
        expect.stringContaining("[exit code 127]"),
        expect.stringContaining("left"),
        "none",
        "one",
        "two",
        "rnix",
      ]);
      expect(rest[8]).toBe("300000");
      const [session, own] = (rest[9] ?? "").split("\n");
      expect(session).toBe(own);
      // It can't be traced.
      expect(rest[10]).toContain("environ: Permission denied");
    });

  test("go on without what starts them when a command ends that", async () => {
    await using machine = new Machine();
    const results = await run(machine, [
      bash("sleep 0.2; kill -KILL $PPID; sleep 300"),
      bash("echo on"),
      bash("pgrep -x sleep || echo none"),
    ]);
    expect(results).toEqual(["[ended by signal SIGKILL]", "on", "none"]);
  });

  test("end at their time limit, also when what starts them is stopped", async () => {
    await using machine = new Machine();
    const limited = (command: string): Turn => ({
      tool_calls: [{ name: "Bash", input: { command, timeout_ms: 500 } }],
    });
    const results = await run(machine, [
      limited("trap '' TERM; sleep 300"),
      limited("sleep 0.2; kill -STOP $PPID; sleep 300"),
      bash("echo on"),
    ]);
    expect(results).toEqual([
      expect.stringContaining("timed out"),
      expect.stringContaining("timed out"),
      "on",
    ]);
  });

  test("with no network join that, too", async () => {
    await using machine = new Machine();
    const [devices] = await run(
      machine,
      [bash("ls /sys/class/net; grep -c : /proc/net/dev")],
      ["--network", "off"],
    );
    expect(devices).toMatch(/1$/);
  });
});
