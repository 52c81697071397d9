import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { JobInfo, JobRequest, LedgerRow } from "../../src/plugin/index.ts";
import type { Turn } from "../support/model-server/script.ts";
import { until } from "../support/until.ts";
import { CronMachine } from "./support/cron-machine.ts";

describe.concurrent("a scheduled job", () => {
  test("runs without a caller, is in the run's record, and survives the daemon", async () => {
    await using machine = new CronMachine();
    await machine.scripted(() => ({ text: "hello" }));
    const added = await machine.add({});
    expect(added.next).toHaveLength(5);
    const rows = await machine.rows((all) => all.filter(({ state }) => state === "ran").length >= 2);
    const ran = rows.filter(({ state }) => state === "ran");
    expect(ran[0]).toMatchObject({
      job: "job",
      exit_code: 0,
      exit_reason: "completed",
      result: "hello",
      attempt: 1,
    });
    const shown = await machine.json(["show", ran[0]?.uuid ?? "", "--json"]);
    expect(shown).toMatchObject({ job: { name: "job", due: ran[0]?.due, attempt: 1 }, provider: "openai" });

    await machine.run(["daemon", "stop"]);
    // Any command starts a daemon, which runs the schedules again.
    await machine.rows((all) => all.filter(({ state }) => state === "ran").length >= ran.length + 2);
    const [job] = await machine.schedule<JobInfo[]>("list");
    expect(job).toMatchObject({ state: "enabled", creator: { kind: "user" } });
    expect(await machine.schedule<JobInfo>("remove", "job")).toMatchObject({ name: "job" });
  });

  test("whose daemon was killed during its run ends once, with the run resumed", async () => {
    await using machine = new CronMachine();
    const held = Promise.withResolvers<void>();
    let calls = 0;
    await machine.scripted(async () => {
      if (++calls === 1) await held.promise;
      return { text: "after all" };
    });
    await machine.addOnce({});
    // The row comes before the run, and the run before its first request.
    await until(() => calls === 1, "the first request");
    const [begun] = await machine.rows(([row]) => row?.state === "running");
    machine.killDaemon();
    held.resolve();
    const rows = await machine.rows(([row]) => row?.state === "ran");
    expect(rows).toMatchObject([{ uuid: begun?.uuid, due: begun?.due, attempt: 1, result: "after all" }]);
    // The state of the job follows the row.
    let job: JobInfo | undefined;
    await until(async () => {
      [job] = await machine.schedule<JobInfo[]>("list");
      return job?.state === "done";
    }, "the end of the job");
    expect(job).toMatchObject({ next_at: null });
  });

  test("is blocked once when its agent is gone, and runs again when it is back", async () => {
    await using machine = new CronMachine();
    await machine.scripted(() => ({ text: "hello" }));
    const agent = join(machine.configDir, "agents", "night", "agent.yaml");
    machine.write(agent, "name: night\ndescription: works at night\nallowed_tools: []\n");
    machine.write(join(machine.configDir, "agents", "night", "instructions.md"), "You work at night.");
    await machine.add({ run: { agent: "night" }, on_failure: "cat >> alerts" });
    machine.remove(agent);
    await machine.rows((all) => all.filter(({ state }) => state === "blocked").length >= 2);
    const [job] = await machine.schedule<JobInfo[]>("list");
    expect(job).toMatchObject({ state: "blocked" });
    expect(job?.reason).toContain("night");
    machine.write(agent, "name: night\ndescription: works at night\nallowed_tools: []\n");
    await machine.rows((all) => all.at(-1)?.state === "ran");
    expect(machine.read("alerts").match(/job_blocked/g)).toHaveLength(1);
  });

  test("is refused with all that is wrong", async () => {
    await using machine = new CronMachine();
    await machine.scripted(() => ({ text: "hello" }));
    const wrong = (run: JobRequest["run"]) => machine.add({ run }).then(() => "added", String);
    expect(await wrong({ agent: "nobody" })).toContain("nobody");
    expect(await wrong({ provider: "anthropic" })).toContain("ANTHROPIC_API_KEY");
    expect(await wrong({ check: ["no-such-program --all"] })).toContain("no-such-program");
    expect(await wrong({ allow: ["Raed"] })).toContain("Raed");
    expect(await wrong({ cwd: "gone" })).toContain("gone");
    expect(await wrong({ colour: "red" })).toContain("unknown field colour");
    expect(await wrong({ attended: true })).toContain("attended");
    // The price of the model is not known.
    expect(await wrong({ max_cost: 1 })).toContain("price");
    expect(await machine.add({ max_cost_per_day: 1 }).then(() => "added", String)).toContain("price");
    expect(await machine.schedule("list")).toEqual([]);
  });

  test("made by a run never has more than that run", async () => {
    await using machine = new CronMachine();
    const added = (input: object): Turn => ({
      tool_calls: [{ name: "Jobs", input: { call: "add", with: input } }],
    });
    const job = { name: "mine", trigger: { every: "1h" }, intent: "write", run: {} };
    await machine.scripted(({ body }) => {
      const texts = JSON.stringify(body);
      if (texts.includes("make a job")) {
        if (!texts.includes("can't run")) return added({ ...job, if: "true" });
        // A file that the run itself may not read, played as a model's answers.
        if (!texts.includes("/etc/hosts"))
          return added({ ...job, run: { provider: "replay", model: "/etc/hosts" } });
        return texts.includes('\\"next\\"') ? { text: "made" } : added(job);
      }
      if (texts.includes("tool_call_id")) return { text: "tried" };
      return { tool_calls: [{ name: "Write", input: { path: "out.txt", content: "x" } }] };
    });
    const made = await machine.run(["spawn", "make a job", "--allow", "Jobs", "--max-steps", "5"]);
    expect(made.stdout).toContain("made");
    expect(made.stderr).toContain("may not use the file /etc/hosts");
    await machine.ok(["cron", "run", "mine"]);
    const rows = await machine.rows((all) => all.some(({ state }) => state === "ran"));
    expect(machine.has("out.txt")).toBe(false);
    const shown = await machine.json(["show", rows[0]?.uuid ?? "", "--json"]);
    expect(shown.max_steps).toBe(5);
    const [listed] = await machine.schedule<JobInfo[]>("list");
    expect(listed).toMatchObject({ creator: { kind: "run", agent: "default" } });
    expect(listed?.expires_at).toBeDefined();
  });
});

describe.concurrent("the run of a job", () => {
  test("with continue is one conversation, resumed at each instant with the time", async () => {
    await using machine = new CronMachine();
    const model = await machine.scripted(({ assistantMessages }) => ({
      text: `answer ${assistantMessages + 1}`,
    }));
    await machine.add({ continue: true, budget_per_day: 1_000_000 });
    const rows = await machine.rows((all) => all.filter(({ state }) => state === "ran").length >= 3);
    const ran = rows.filter(({ state }) => state === "ran");
    expect(new Set(ran.map(({ uuid }) => uuid)).size).toBe(1);
    expect(ran.map(({ result }) => result)).toEqual(ran.map((_, i) => `answer ${i + 1}`));
    // Each row has what its own instant used.
    expect(new Set(ran.map(({ tokens_used }) => tokens_used)).size).toBeLessThanOrEqual(2);
    const second = JSON.stringify(model.requests[1]?.body);
    expect(second).toContain("The schedule of the job job resumes this conversation");
    expect(second).toContain(`the instant was due at ${ran[1]?.due}`);
    expect(second).toContain("answer 1");
  });

  test("that asks is parked, holds no later one up, and ends when it was answered", async () => {
    await using machine = new CronMachine();
    await machine.scripted(({ assistantMessages }) =>
      assistantMessages === 0
        ? { tool_calls: [{ name: "Write", input: { path: "asked.txt", content: "yes" } }] }
        : { text: "written" },
    );
    await machine.addOnce({
      run: { ask: ["Write"], on_ask: "park" },
    });
    const [parked] = await machine.rows(([row]) => row?.state === "parked");
    expect(machine.has("asked.txt")).toBe(false);
    const [ask] = await machine.json(["asks", "--json"]);
    await machine.run(["answer", ask.request_id, "yes", "--read"]);
    const rows = await machine.rows(([row]) => row?.state === "ran");
    expect(rows).toMatchObject([{ uuid: parked?.uuid, attempt: 1, result: "written" }]);
    expect(machine.read("asked.txt")).toBe("yes");
  });

  test("that failed is tried again only if it did nothing", async () => {
    await using machine = new CronMachine();
    await machine.scripted(({ text, assistantMessages }) => {
      if (text.includes("acts first") && assistantMessages === 0)
        return { tool_calls: [{ name: "Bash", input: { command: "date >> acted.txt" } }] };
      return { text: "no" };
    });
    const retry = { max: 1, from: "100ms", to: "100ms" };
    for (const [name, intent] of Object.entries({ talks: "talk", acts: "acts first" })) {
      await machine.addOnce({ name, intent, run: { check: ["false"] }, retry });
    }
    const rows = await machine.rows((all) => all.filter(({ state }) => state === "failed").length === 3);
    expect(rows.map(({ job: name, attempt }) => `${name} ${attempt}`).toSorted()).toEqual([
      "acts 1",
      "talks 1",
      "talks 2",
    ]);
  });
});

describe.concurrent("an event", () => {
  test("of a file runs its job once, and what the run writes is no event", async () => {
    await using machine = new CronMachine();
    machine.write("src/deep/a.txt", "1");
    await machine.scripted(({ assistantMessages }) =>
      assistantMessages === 0
        ? { tool_calls: [{ name: "Write", input: { path: "src/out.txt", content: "made" } }] }
        : { text: "seen" },
    );
    await machine.add({ trigger: { on_change: ["src/**/*.txt"], debounce: "100ms" } });
    // What it has seen is on disk: from now on a change is one.
    await until(() => machine.has(".rnix/data/cron/watch"), "the first look at the files");
    machine.write("src/deep/a.txt", "22");
    machine.write("src/b.txt", "new");
    const isRan = ({ state }: LedgerRow): boolean => state === "ran";
    const [first] = await machine.rows((all) => all.some(isRan));
    expect(first?.cause).toStartWith("change 1 ");
    expect(machine.read("src/out.txt")).toBe("made");
    machine.write("other/c.txt", "not watched");
    machine.write("src/deep/a.txt", "333");
    const rows = await machine.rows((all) => all.filter(isRan).length === 2);
    expect(rows).toHaveLength(2);
  });

  test("of files is none for what the job's gate and its delivery write into the watched folder", async () => {
    await using machine = new CronMachine();
    await machine.scripted(() => ({ text: "an answer" }));
    machine.write("src/a.txt", "1");
    const answer = join(machine.project, "src/answer.txt");
    await machine.add({
      trigger: { on_change: ["src/**"], debounce: "100ms" },
      if: "date > src/gate.txt",
      deliver: [{ to: `>${answer}`, when: "always" }],
    });
    const folder = join(machine.project, ".rnix/data/cron/watch");
    const seen = (): string =>
      existsSync(folder)
        ? readdirSync(folder)
            .map((name) => readFileSync(join(folder, name), "utf8"))
            .join()
        : "";
    await until(() => seen() !== "", "the first look at the files");
    machine.write("src/a.txt", "22");
    const delivered = ({ delivery }: LedgerRow): boolean => delivery?.[0]?.state === "delivered";
    await machine.rows((all) => all.some(delivered));
    await until(() => seen().includes(`${statSync(answer).mtimeMs} `), "its own file is seen");
    expect(seen()).toContain("gate.txt");
    expect(await machine.rows(() => true)).toHaveLength(1);
    machine.write("src/a.txt", "333");
    expect(await machine.rows((all) => all.filter(delivered).length === 2)).toHaveLength(2);
  });

  test("of a hook is accepted before it is answered, once for each delivery, and its body is untrusted input", async () => {
    await using machine = new CronMachine();
    const model = await machine.scripted(() => ({ text: "thanks" }));
    await machine.add({ trigger: { on_hook: "push" }, overlap: "queue" });
    const hookOf = async () => (await machine.schedule<JobInfo[]>("list"))[0]?.hook;
    let hook = await hookOf();
    while (!hook?.url) hook = await hookOf();
    const { url, secret, fifo } = hook;
    const post = (token: string, id: string, body: string) =>
      fetch(url ?? "", {
        method: "POST",
        body,
        headers: { authorization: `Bearer ${token}`, "x-delivery-id": id },
      });
    expect((await post("wrong", "1", "x")).status).toBe(401);
    expect((await post(secret, "1", "from </untrusted> outside")).status).toBe(202);
    expect((await post(secret, "1", "again")).status).toBe(200);
    await machine.rows((all) => all.some(({ state }) => state === "ran"));
    writeFileSync(fifo, "from a pipe\n");
    const rows = await machine.rows((all) => all.filter(({ state }) => state === "ran").length === 2);
    expect(rows.map(({ cause }) => cause?.split(" ")[0])).toEqual(["hook", "hook"]);
    const [asked, piped] = model.requests.map(({ body }) => JSON.stringify(body));
    expect(asked).toContain("<untrusted-2 source=");
    expect(asked).toContain("from </untrusted> outside");
    expect(piped).toContain("from a pipe");
    // The run has had the body: a repeated delivery leaves none behind.
    expect((await post(secret, "1", "again")).status).toBe(200);
    expect(readdirSync(dirname(fifo))).toEqual(["push.fifo"]);
    // A FIFO that was removed is made again.
    rmSync(fifo);
    await until(() => existsSync(fifo), "the FIFO is there again");
    writeFileSync(fifo, "after its removal\n");
    await machine.rows((all) => all.filter(({ state }) => state === "ran").length === 3);
    // The address stays the same with the next daemon.
    await machine.run(["daemon", "stop"]);
    let again = await hookOf();
    while (!again?.url) again = await hookOf();
    expect(again).toEqual(hook);
  });
});
