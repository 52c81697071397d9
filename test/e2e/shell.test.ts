import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage } from "./support/requests.ts";
import { listed } from "./support/runs.ts";
import { shellTorture } from "./support/torture/shell-torture.ts";

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
    for (const [line, message] of [
      ["spawn x --provider p", "unknown flag --provider; expected one of --"],
      ["spawn x --model --agent", "--model: expected a value"],
      ["spawn x --model", "--model: expected a value"],
    ] as const)
      expect(await machine.run(["sh", "-c", line])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`spawn: ${message}`),
      });
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

describe("commands of the kernel", () => {
  test.concurrent("ps, send, kill and wait of an agent in the background", async () => {
    await using machine = new Machine();
    const held = Promise.withResolvers<void>();
    await machine.model(async (request) => {
      machine.write("asked", "");
      await held.promise;
      return CAPITALS(request);
    });
    machine.write(
      "job.sh",
      `spawn slow &
bash -c 'until [ -e asked ]; do sleep 0.02; done'
P=$(ps | awk '$5 == "slow" {print $1}')
send $P "look at this" && echo sent
kill -STOP $P; cat /proc/$P/status | grep -o '"pid":[0-9]*' | wc -l
kill -CONT $P; kill $P; wait $P; echo $?
wait %1; echo $?
kill -TERM 1
`,
    );
    const { stdout, code } = await machine.run(["sh", "job.sh"]);
    held.resolve();
    expect(stdout).toBe("sent\n1\n143\n143\n");
    // Its own process.
    expect(code).toBe(143);
  });
});

describe("rights of a script", () => {
  test.concurrent("what the rules for Bash refuse is refused, however it is written", async () => {
    await using machine = new Machine();
    await machine.model(CAPITALS);
    const denied = [
      "touch made",
      "'touch' made",
      "X=touch; $X made",
      'X="touch made"; $X',
      "echo made | xargs touch",
      "echo a && touch made",
      "echo $(touch made)",
      "touch made & wait %1",
      "cd sub && touch ../made",
      "/usr/bin/touch made | cat",
      "cat < ../line > /dev/shell",
      'call Bash command="touch made"',
    ];
    machine.write("sub/x", "");
    machine.write("line", "touch made");
    const lines = denied.map((line, index) => `${line}; echo ${index} $?`).join("\n");
    const { stdout } = await machine.ok(["sh", "--deny", "Bash(touch *),Bash(xargs *)", "-c", lines]);
    expect(existsSync(join(machine.project, "made"))).toBe(false);
    expect(
      stdout
        .trim()
        .split("\n")
        .filter((line) => !/^a?$/.test(line)),
    ).toEqual(denied.map((line, index) => `${index} ${line.startsWith("echo $(") ? 0 : 126}`));
    const none = await machine.run([
      "sh",
      "--deny",
      "Bash,Write",
      "-c",
      "spawn hello; call Write path=made content=x; ls",
    ]);
    expect(none).toMatchObject({ code: 126, stdout: "HELLO\n" });
    expect(existsSync(join(machine.project, "made"))).toBe(false);
  });

  test.concurrent("values are never read as commands", async () => {
    await using machine = new Machine();
    await machine.model(() => ({ text: "'; touch made; echo $(touch made) `touch made` #" }));
    const { stdout } = await machine.ok([
      "sh",
      "-c",
      'X=$(spawn x); echo "$X"; echo $X; echo "$1" $1; printf "%s" "$X" | wc -l; echo "$X" > "$X.txt"; ls *.txt',
      "sh",
      "a'b; touch made",
    ]);
    expect(stdout).toContain("a'b; touch made a'b; touch made");
    expect(stdout.match(/touch made; echo/g)?.length).toBe(3);
    expect(existsSync(join(machine.project, "made"))).toBe(false);
  });

  test.concurrent("lines that can't be read end with 2 before anything runs; output without end is ended", async () => {
    await using machine = new Machine();
    await machine.model(CAPITALS);
    const wrong = [
      "'open",
      '"open',
      "a |",
      "| a",
      "a && ",
      "a ;; b",
      "& a",
      "(a)",
      "{ a; }",
      "if a; then b; fi",
      "f() { a; }",
      "cat << x\nx",
      "a > ",
      "a 5> b",
      "$(",
      "`",
      "echo $((1 + X))",
      "${" + "X/a/b}",
      "for i in a; do b; done",
      `${"$(".repeat(500)}`,
      "echo )",
    ];
    const codes = await Promise.all(
      wrong.map(async (line) => (await machine.run(["sh", "-c", `touch made\n${line}`])).code),
    );
    expect(codes).toEqual(wrong.map(() => 2));
    expect(existsSync(join(machine.project, "made"))).toBe(false);
    const usage =
      "spawn; echo $?; spawn --no-such x; echo $?; spawn --max-steps many x; echo $?; wait x; echo $?; kill x; echo $?; call Nothing; echo $?";
    expect((await machine.ok(["sh", "-c", usage])).stdout).toBe("2\n2\n2\n2\n2\n127\n");
    const endless = await machine.run(["sh", "-c", "yes; echo never; exit 7"]);
    expect(endless.code).toBe(7);
  });

  test.concurrent("Ctrl-C suspends it with its agents; a resume does the rest", async () => {
    await using machine = new Machine();
    const hold = Promise.withResolvers<void>();
    const model = await machine.model(async (request) => {
      if (firstUserMessage(request) === "slow") await hold.promise;
      return CAPITALS(request);
    });
    const running = machine.start(["sh", "-c", "echo once >> ran; spawn slow; echo end >> ran"]);
    await until(() => model.requests.length === 1);
    running.signal("SIGINT");
    expect((await running.done).code).toBe(75);
    hold.resolve();
    const [run] = (await listed(machine)).filter(({ parent_uuid }) => parent_uuid === null);
    expect((await machine.ok(["resume", run?.uuid ?? ""])).stdout).toBe("SLOW\n");
    expect(machine.read("ran")).toBe("once\nend\n");
  });
});

describe("a script after kill -9", () => {
  test("at random moments: no command runs again after its end, nothing is lost", async () => {
    await using machine = new Machine();
    const report = await shellTorture(machine, { seed: 3, kills: soak(6, 20), commands: 11 });
    expect(report.wrong).toEqual([]);
  }, 120_000);
});
