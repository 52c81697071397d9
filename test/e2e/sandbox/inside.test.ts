import { describe, expect, test } from "bun:test";
import { chmodSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { TYPESCRIPT } from "../../plugins/lsp/support.ts";
import { installed } from "../../support/installed.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { MCP_COMMAND, mcpJson } from "../support/mcp.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { furnish, script } from "./stage.ts";

const RECORDED = resolve(import.meta.dir, "../../plugins/recorded");
const REQUIRED = ["spawn", "--no-stdin", "--trust", "--sandbox", "required"];

/** A program of the project that makes every attempt, then is `program`. Its attempts are in the file `tried`. */
function attempting(machine: Machine, program: string): string {
  const attempts = script(machine, process.pid);
  // Outside of a sandbox they would act on this machine.
  const guard = `[ -e ${machine.home}/.ssh ] && echo 'ESCAPED everything' && echo ALL TRIED && exit 1`;
  return machine.write("attempt.sh", `{\n${guard}\n${attempts}\n} >tried 2>&1\nexec ${program}\n`);
}

/** What the program has achieved, once it has tried everything. */
async function achieved(machine: Machine): Promise<string[]> {
  await until(() => machine.has("tried") && machine.read("tried").includes("ALL TRIED"));
  return machine
    .read("tried")
    .split("\n")
    .filter((line) => line.startsWith("ESCAPED"));
}

describe.if(installed("bwrap", "setpriv"))("what a run in a sandbox starts is in it:", () => {
  test("an MCP server, which runs of the same policy share", async () => {
    await using machine = new Machine({ git: true });
    furnish(machine);
    const file = attempting(machine, MCP_COMMAND);
    const notes = { command: "/bin/sh", args: [file], mount_timeout: "60s" };
    mcpJson(machine, { notes, keys: { command: "cat", args: [join(machine.home, ".ssh/id_ed25519")] } });
    const echo = calls(["mcp__notes__echo", { text: "milk" }], ["mcp__notes__env", { name: "TMPDIR" }]);
    const model = await machine.play({ "use it": [echo, says("done")] });
    const use = ["--mcp", "notes", "use it"];
    await machine.ok([...REQUIRED, ...use]);
    expect(toolResults(model.last)).toEqual(['{"text":"milk"}', "/tmp"]);
    expect(await achieved(machine)).toEqual([]);
    const failed = await machine.run([...REQUIRED, "--mcp", "keys", "use it"]);
    expect(failed.stderr).toMatch(/No such file or directory\. It runs in the sandbox .* sandbox: off/);
    const started = (): number => machine.read("tried").split("ALL TRIED").length - 1;
    machine.write("attempt.sh", `echo ALL TRIED >>tried; exec ${MCP_COMMAND}`);
    await machine.ok([...REQUIRED, ...use]);
    expect(started()).toBe(1);
    await machine.ok(["spawn", "--no-stdin", "--trust", "--sandbox", "off", ...use]);
    expect(started()).toBe(2);
    expect(machine.read(join(machine.home, ".bashrc"))).not.toContain("x\n");
    rmSync(machine.home, { recursive: true });
  });

  test.if(installed("nsenter", "curl"))(
    "an MCP server, in the network of its run where that is limited",
    async () => {
      await using machine = new Machine({ git: true });
      await using page = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("the page") });
      const at = `127.0.0.1:${page.port}`;
      const get = `curl -sS --max-time 5 http://${at}/ http://refused.test/ >tried 2>&1`;
      mcpJson(machine, { notes: { command: "/bin/sh", args: ["-c", `${get}; exec ${MCP_COMMAND}`] } });
      const model = await machine.play({
        "use it": [calls(["mcp__notes__echo", { text: "milk" }]), says("done")],
      });
      const spawn = ["spawn", "--no-stdin", "--trust", "--mcp", "notes", "use it"];
      for (const flags of [["--sandbox", "required"], []]) {
        await machine.ok([...spawn, ...flags, "--network", at]);
        expect(toolResults(model.last)[0]).toContain("refused.test:80: it is not listed");
        expect(machine.read("tried")).toMatch(/^the page.*does not reach refused\.test:80/);
      }
      await machine.ok([...spawn, "--network", "off"]);
      expect(machine.read("tried")).not.toContain("the page");
    },
  );

  test("a language server, which runs without a sandbox do not share", async () => {
    await using machine = new Machine({ git: true });
    furnish(machine);
    const server = `${join(import.meta.dir, "../../../node_modules/.bin/typescript-language-server")} --stdio`;
    const command = ["/bin/sh", attempting(machine, server)];
    const typescript = { ...TYPESCRIPT.servers.typescript, command };
    machine.config({ plugins: { lsp: { servers: { typescript } } } });
    machine.write("a.ts", "export const wrong: string = 1;\n");
    const look = calls(["Lsp", { operation: "diagnostics", file: "a.ts" }]);
    const model = await machine.play({ "use it": [look, look, says("done")] });
    await machine.ok([...REQUIRED, "use it"]);
    for (const text of toolResults(model.last)) expect(text).toContain("is not assignable");
    expect(await achieved(machine)).toEqual([]);
    machine.write("attempt.sh", `touch again\nexec ${server}`);
    await machine.ok([...REQUIRED, "use it"]);
    expect(machine.has("again")).toBe(false);
    await machine.ok(["spawn", "--no-stdin", "--trust", "--sandbox", "off", "use it"]);
    expect(machine.has("again")).toBe(true);
    rmSync(machine.home, { recursive: true });
  }, 60_000);

  test("a CLI that is the model, with its login and nothing else of the home", async () => {
    await using machine = new Machine({ git: true });
    furnish(machine);
    const login = machine.write(join(machine.home, ".claude/.credentials.json"), "login");
    machine.write(join(machine.home, ".claude/settings.json"), "{}");
    const file = attempting(
      machine,
      `sh -c '
        [ "$(cat ~/.claude/.credentials.json)" = login ] && echo renewed >~/.claude/.credentials.json
        echo x >>~/.claude/settings.json && echo ESCAPED settings >>tried
        cat ${RECORDED}/claude-answer.jsonl'`,
    );
    const command = machine.write(
      join(machine.elsewhere, "bin/claude"),
      `#!/bin/sh
      case "$*" in
        --version) echo '2.1.329 (Claude Code)' ;;
        --help) cat ${RECORDED}/claude-help.txt ;;
        *) [ -e tried ] && exec cat ${RECORDED}/claude-answer.jsonl
           exec /bin/sh ${file} ;;
      esac`,
    );
    chmodSync(command, 0o755);
    const env = { PATH: `${dirname(command)}:${machine.env.PATH}` };
    const use = ["--provider", "claude", "--model", "sonnet", "--output", "json", "hello"];
    const receipt = await machine.json([...REQUIRED, ...use], { env });
    expect(receipt).toMatchObject({ exit_code: 0, sandbox: "project (bubblewrap)" });
    expect(await achieved(machine)).toEqual([]);
    expect(machine.read(login)).toBe("renewed\n");
    rmSync(machine.home, { recursive: true });
  });

  test("a plugin from disk, wherever it is: a process for each project, unless it is to be outside", async () => {
    await using machine = new Machine({ git: true });
    machine.config({ sandbox: "unattended" });
    furnish(machine);
    const file = attempting(machine, "true");
    const plugin = (name: string): string => `
      import { defineTool } from "rnix/plugin";
      import { existsSync, writeFileSync } from "node:fs";
      const started = Date.now() + Math.random();
      process.on("SIGTERM", () => {}); // One of the attempts signals all that it sees.
      export default defineTool({
        name: "${name}",
        description: "Tries.",
        input: { type: "object", properties: { run: { type: "string" } } },
        run: async ({ run }, { cwd }) => {
          if (run === "crash") process.kill(process.pid, "SIGSEGV");
          if (run === "hold") await Bun.sleep(5_000, (globalThis.held = Buffer.alloc(1.1 * 2 ** 30, 1)));
          if (run) Bun.spawnSync(["/bin/sh", run], { cwd, env: { HOME: "${machine.home}", PATH: "/usr/bin:/bin" } });
          writeFileSync(\`\${cwd}/written\`, "by the plugin");
          const key = existsSync("${machine.home}/.ssh/id_ed25519");
          return JSON.stringify({ started, key });
        },
      });`;
    machine.write(".rnix/plugins/own.ts", plugin("Own"));
    machine.write(join(machine.configDir, "plugins/yours.ts"), plugin("Yours"));
    await machine.ok(["trust", "--yes"]);
    const call = async (tool: string, input = {}, options = {}): Promise<{ started: number; key: boolean }> =>
      JSON.parse((await machine.ok(["call", tool, JSON.stringify(input)], options)).stdout);
    const own = await call("Own", { run: file });
    expect(own.key).toBe(false);
    expect(await achieved(machine)).toEqual([]);
    expect(machine.read("written")).toBe("by the plugin");
    const yours = await call("Yours");
    expect(yours.key).toBe(false);
    expect(await call("Yours")).toEqual(yours);
    expect((await call("Yours", {}, { cwd: machine.elsewhere })).started).not.toBe(yours.started);
    const ended = async (run: string): Promise<string> =>
      (await machine.run(["call", "Own", JSON.stringify({ run })])).stderr;
    expect(await ended("crash")).toContain("the signal SIGSEGV ended it");
    expect(await ended("hold")).toContain("MiB of memory; a plugin may hold");
    machine.config({ sandbox: "unattended", plugins_outside: ["yours"] });
    expect((await call("Yours")).key).toBe(true);
    expect((await call("Own")).key).toBe(false);
    for (const folder of [machine.home, join(machine.dataDir, "plugin-homes")])
      rmSync(folder, { recursive: true });
  });
});
