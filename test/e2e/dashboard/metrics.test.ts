import { describe, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { freePort } from "../../support/free-port.ts";
import { installed } from "../../support/installed.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { detach } from "../support/runs.ts";
import { bash, calls, says } from "../support/scenes.ts";

async function metricsOf(
  machine: Machine,
  flag = "--metrics-token",
): Promise<{ url: string; token: string }> {
  const { stdout, stderr } = await machine.ok(["dashboard", flag]);
  return { url: stderr.trim(), token: stdout.trim() };
}

async function scrape(url: string, token: string): Promise<string> {
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toStartWith("text/plain; version=0.0.4");
  return await answer.text();
}

describe("/metrics", () => {
  test("counts processes by status and open questions, and follows a pause", async () => {
    await using machine = new Machine();
    await machine.play({ long: [bash("sleep 600"), says("never")], asker: [bash("id"), says("done")] });
    await detach(machine, "long");
    await detach(machine, "asker", "--ask", "Bash", "--on-ask", "park");
    const { url, token } = await metricsOf(machine);
    await until(async () => (await scrape(url, token)).includes("rnix_questions_open 1"));
    const text = await scrape(url, token);
    expect(text).toContain('rnix_processes{status="running"} 1\n');
    expect(text).toContain('rnix_processes{status="suspended"} 1\n');
    expect(text).toContain('rnix_processes{status="paused"} 0\n');
    expect(text).toMatch(/^rnix_model_requests_total\{provider="[\w-]+"\} [1-9]/m);
    expect(text).toMatch(/^process_resident_memory_bytes [1-9]\d{6,}$/m);
    await machine.ok(["pause", "1"]);
    await until(async () => (await scrape(url, token)).includes('rnix_processes{status="paused"} 1\n'));
  }, 30_000);

  test("counts ended runs by verdict, tokens, and tool calls by their end", async () => {
    await using machine = new Machine();
    await machine.play({ good: [bash("true"), calls(["NoTool", {}]), says("done")], bad: [] });
    const { url, token } = await metricsOf(machine);
    await machine.run(["spawn", "good"]);
    await machine.run(["spawn", "bad"]);
    const text = await scrape(url, token);
    expect(text).toContain("# TYPE rnix_runs_ended_total counter\n");
    expect(text).toContain('rnix_runs_ended_total{verdict="completed"} 1\n');
    expect(text).toMatch(/^rnix_runs_ended_total\{verdict="llm_error"\} 1$/m);
    expect(text).toMatch(/^rnix_tokens_total\{provider="[\w-]+",type="output"\} [1-9]/m);
    expect(text).toContain('rnix_tool_calls_total{state="done"} 1\n');
    expect(text).toContain('rnix_tool_calls_total{state="failed"} 1\n');
  }, 20_000);

  test("its token survives the daemon, in a file of the user alone, until it is replaced", async () => {
    await using machine = new Machine();
    const first = await metricsOf(machine);
    const file = join(machine.dataDir, "metrics-token");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    await machine.ok(["daemon", "restart"]);
    const second = await metricsOf(machine);
    expect(second.token).toBe(first.token);
    const third = await metricsOf(machine, "--new-metrics-token");
    expect(third.token).not.toBe(first.token);
    await scrape(third.url, third.token);
    const refused = await fetch(third.url, { headers: { authorization: `Bearer ${first.token}` } });
    expect(refused.status).toBe(401);
    // Others have read it: it is a token no longer.
    await chmod(file, 0o644);
    await machine.ok(["daemon", "restart"]);
    expect((await metricsOf(machine)).token).not.toBe(third.token);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  }, 20_000);

  test("has a token of its own, which opens nothing else; no cookie opens it", async () => {
    await using machine = new Machine();
    const { url, token } = await metricsOf(machine);
    expect(await metricsOf(machine)).toEqual({ url, token });
    const { origin } = new URL(url);
    const bearer = { authorization: `Bearer ${token}` };
    expect((await fetch(url)).status).toBe(401);
    expect((await fetch(url, { headers: { authorization: `Bearer ${token}x` } })).status).toBe(401);
    expect((await fetch(url, { headers: { ...bearer, host: "evil.example" } })).status).toBe(421);
    expect((await fetch(origin, { headers: bearer })).status).toBe(401);
    expect((await fetch(`${origin}/api/list_all_procs`, { headers: bearer })).status).toBe(401);
    expect((await fetch(`${origin}/?token=${token}`)).status).toBe(401);
    const page = (await machine.ok(["dashboard", "--no-browser"])).stdout.trim();
    const cookie = (await fetch(page, { redirect: "manual" })).headers.get("set-cookie") ?? "";
    expect((await fetch(url, { headers: { cookie: cookie.split(";")[0] ?? "" } })).status).toBe(401);
  }, 20_000);
});

const Answer = z.object({
  data: z.object({ result: z.array(z.object({ value: z.tuple([z.number(), z.string()]) })) }),
});

describe.skipIf(!installed("prometheus"))("a real Prometheus", () => {
  test("scrapes it with the token from a file", async () => {
    await using machine = new Machine();
    await machine.play({ long: [bash("sleep 600"), says("never")] });
    await detach(machine, "long");
    const { url, token } = await metricsOf(machine);
    const dir = await mkdtemp(join(tmpdir(), "rnix-prometheus-"));
    await writeFile(join(dir, "token"), `${token}\n`);
    const config = join(dir, "prometheus.yml");
    const job = {
      job_name: "rnix",
      scrape_interval: "1s",
      authorization: { credentials_file: join(dir, "token") },
      static_configs: [{ targets: [new URL(url).host] }],
    };
    await writeFile(config, JSON.stringify({ scrape_configs: [job] }));
    const port = await freePort();
    const flags = [`--config.file=${config}`, `--storage.tsdb.path=${join(dir, "tsdb")}`];
    const server = Bun.spawn(["prometheus", ...flags, `--web.listen-address=127.0.0.1:${port}`], {
      stdout: "ignore",
      stderr: "ignore",
    });
    try {
      const ask = async (query: string): Promise<string | undefined> => {
        const address = `http://127.0.0.1:${port}/api/v1/query?query=${encodeURIComponent(query)}`;
        const answer = await fetch(address).catch(() => undefined);
        if (answer?.status !== 200) return undefined;
        return Answer.parse(await answer.json()).data.result[0]?.value[1];
      };
      await until(async () => (await ask('up{job="rnix"}')) === "1");
      expect(await ask('rnix_processes{status="running"}')).toBe("1");
      expect(await ask('rnix_processes{status="failed"}')).toBe("0");
    } finally {
      server.kill();
      await server.exited;
      await rm(dir, { recursive: true });
    }
  }, 30_000);
});
