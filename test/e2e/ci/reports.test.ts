import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { Machine } from "../support/machine.ts";

const CHECK = 'echo "src/a.ts:3:4: error: bad, 100%"; echo "::set-output name=x::y"; sleep 0.1; exit 1';

/** A machine whose script answers with Markdown that tries to leave its place. */
function machineWithScript(answer = "done <b>\n\n# Heading\n\n::error::told by the model"): Machine {
  const machine = new Machine();
  machine.write("src/a.ts", "x\n");
  machine.write(
    "script.yaml",
    `responses:\n  - tool_calls: [{ name: Write, input: { path: new.txt, content: x } }]\n  - text: ${JSON.stringify(answer)}\n`,
  );
  return machine;
}

const SPAWN = [
  "spawn",
  "--no-daemon",
  "--provider",
  "replay",
  "--model",
  "script.yaml",
  "--check-attempts",
  "1",
];

describe("the reports of a run in a pipeline", () => {
  test("a failed run: summary, JUnit and code quality name the check, its output and its places", async () => {
    await using machine = machineWithScript();
    const reports = ["--summary", "s.md", "--junit", "j.xml", "--code-quality", "q.json"];
    const { code } = await machine.run([...SPAWN, ...reports, "--check", CHECK, "Fix *it*"]);
    expect(code).toBe(1);
    const summary = machine.read("s.md");
    expect(summary).toStartWith("### Rnix: ❌ check_failed (exit 1)\n\n> Fix *it*\n");
    expect(summary).toContain("❌ failed (exit 1)");
    expect(summary).toContain("```\nsrc/a.ts:3:4: error: bad, 100%\n");
    expect(summary).toContain("- `new.txt` +1 −0\n");
    expect(summary).toEndWith("> done &lt;b>\n> \n> # Heading\n> \n> ::error::told by the model\n");
    const [, head, all, own, check] =
      /<testsuites(.*?) time="(\S+)">[\s\S]*rnix run" time="(\S+)"[\s\S]*rnix check" time="(\S+)"/.exec(
        machine.read("j.xml"),
      ) ?? [];
    expect(head).toContain('tests="2" failures="2"');
    expect(Number(check)).toBeGreaterThan(0.05);
    expect(Number(own) + Number(check)).toBeCloseTo(Number(all), 2);
    expect(JSON.parse(machine.read("q.json"))).toMatchObject([
      { description: "error: bad, 100%", location: { path: "src/a.ts", lines: { begin: 3 } } },
    ]);
  });

  test("no text of the model is a link or a picture in the summary", async () => {
    const links = [
      "![x](https://evil.io/?d=1) [y](https://evil.io) [z] [r][1] ![p][1] [1] ![1] [esc\\](https://evil.io)",
      "https://evil.io/a HTTP://evil.io www.evil.io ftp://evil.io jane@evil.io <https://evil.io> <jane@evil.io>",
      "<img src='https://evil.io/x.png'> [a](<https://evil.io>) [b]\n(https://evil.io) [![i](//evil.io/i)](//evil.io)",
      "[1]: https://evil.io\n[z]: //evil.io 'x'\n\n- [l]: https://evil.io\n\n`a[0](x)` **bold**",
    ];
    await using machine = machineWithScript(links.join("\n\n"));
    await machine.ok([...SPAWN, "--summary", "s.md", "x"]);
    const html = Bun.markdown.html(machine.read("s.md"), { autolinks: true });
    expect(html.match(/<(?:a|img)\b[^>]*>/g) ?? []).toEqual([]);
    expect(html).toContain("<strong>bold</strong>");
  });

  test("no text of the model mentions anyone, draws a diagram or hides an address behind a sign", async () => {
    const text = [
      "_www.evil.io_ a-@evil.io @octocat (@org/team) #12 org/repo#13 GH-14 !15",
      "```mermaid\ngraph TD; A[x]\n```\n\n1. ~~~ plantuml {x}\n   a\n   ~~~\n\n> ```geojson\n> {}\n> ```",
      "a ```b``` c",
    ];
    await using machine = machineWithScript(text.join("\n\n"));
    await machine.ok([...SPAWN, "--summary", "s.md", "x"]);
    const markdown = machine.read("s.md");
    const html = Bun.markdown.html(markdown, { autolinks: true });
    expect(html.match(/<(?:a|img)\b[^>]*>|language-(?!text)[^"]*/g) ?? []).toEqual([]);
    expect(markdown).not.toMatch(/@\w|[#!]\d|GH-\d|www\.\w/);
    expect(markdown).toContain("a ```b``` c");
  });

  test("a run that completes, and one that never begins", async () => {
    await using machine = machineWithScript();
    await machine.ok([...SPAWN, "--summary", "s.md", "--junit", "j.xml", "x"]);
    expect(machine.read("s.md")).toStartWith("### Rnix: ✅ completed\n");
    expect(machine.read("j.xml")).toContain('tests="1" failures="0"');
    const none = await machine.run([...SPAWN, "--agent", "nobody", "--summary", "s.md", "x"]);
    expect(none.code).toBe(64);
    expect(machine.read("s.md")).toStartWith("### Rnix: ❌ usage (exit 64)\n");
    expect(machine.read("s.md")).toContain("nobody");
  });

  test("on GitHub: the step's summary is appended to, problems are annotated, and a run's text is no command", async () => {
    await using machine = machineWithScript();
    machine.write("step.md", "before\n");
    const env = { GITHUB_ACTIONS: "true", GITHUB_STEP_SUMMARY: `${machine.project}/step.md` };
    const { stderr } = await machine.run([...SPAWN, "--check", CHECK, "x"], { env });
    expect(machine.read("step.md")).toStartWith("before\n### Rnix: ❌ check_failed (exit 1)\n");
    const lines = stderr.split("\n");
    const stop = lines.findIndex((line) => line.startsWith("::stop-commands::"));
    const token = lines[stop]?.slice("::stop-commands::".length);
    const resume = lines.indexOf(`::${token}::`);
    expect(token).toMatch(/^[0-9a-f-]{36}$/);
    expect(resume).toBeGreaterThan(stop);
    const commands = lines.flatMap((line, at) => (line.trimStart().startsWith("::") ? [at] : []));
    expect(commands.filter((at) => at < stop)).toEqual([]);
    expect(lines.slice(resume + 1, -1)).toEqual([
      expect.stringMatching(/^::error file=src\/a\.ts,line=3,col=4,title=.*::error: bad, 100%25$/),
      expect.stringMatching(/^::error title=Rnix%3A check_failed::/),
    ]);
  });

  test("a place that can't be written costs nothing: exit 64 before the run", async () => {
    await using machine = machineWithScript();
    for (const path of ["none/s.md", "src"]) {
      const { code, stderr } = await machine.run([...SPAWN, "--summary", path, "x"]);
      expect({ code, stderr }).toMatchObject({ code: 64, stderr: expect.stringContaining("--summary") });
    }
    expect(machine.has("new.txt")).toBe(false);
  });

  test("a summary that can't be written at the end is named, and the command ends with an error", async () => {
    await using machine = machineWithScript();
    machine.write("out/keep", "");
    const check = "chmod 500 out && rm -f out/s.md && mkdir -p out/s.md || true";
    machine.write(
      "script.yaml",
      `responses:\n  - tool_calls: [{ name: Bash, input: { command: mkdir out/s.md } }]\n  - text: done\n`,
    );
    const { code, stderr } = await machine.run([...SPAWN, "--summary", "out/s.md", "--check", check, "x"]);
    chmodSync(`${machine.project}/out`, 0o700);
    expect(stderr).toContain("note: the report");
    expect(stderr).toContain("the run completed; not written: ");
    expect(code).toBe(1);
  });
});
