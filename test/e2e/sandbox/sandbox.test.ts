import { describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { installed } from "../../support/installed.ts";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { writeKeys } from "../support/keys-file.ts";
import { filesBelow } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { bash, calls, says } from "../support/scenes.ts";
import { dropPrivileges } from "../support/unprivileged.ts";
import { withoutUserNamespaces } from "../support/without-userns.ts";
import { zombiesOf } from "../support/zombies.ts";

const REQUIRED = ["spawn", "--no-stdin", "--sandbox", "required"];

/** Runs these commands, one call each, and returns what each has printed. */
async function run(machine: Machine, commands: string[], flags: string[] = []): Promise<string[]> {
  const model = await machine.play({ "do it": [...commands.map((command) => bash(command)), says("done")] });
  await machine.ok([...REQUIRED, ...flags, "do it"]);
  return toolResults(model.last);
}

function git(machine: Machine, ...args: string[]): void {
  const env = { ...process.env, HOME: machine.home, GIT_CONFIG_GLOBAL: "/dev/null" };
  const identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
  const result = Bun.spawnSync(["git", ...identity, ...args], { cwd: machine.project, env });
  if (!result.success) throw new Error(`git ${args.join(" ")}: ${result.stderr}`);
}

const IDENTITY = "git -c user.name=a -c user.email=a@b.c";

describe.if(installed("bwrap"))("a run in a sandbox", () => {
  test("that is tried anew for another PATH leaves no ended process behind", async () => {
    await using machine = new Machine();
    const bwrap = Bun.which("bwrap") ?? "";
    for (const folder of ["one", "two", "three"]) {
      mkdirSync(join(machine.project, folder));
      symlinkSync(bwrap, join(machine.project, folder, "bwrap"));
      const env = { PATH: `${join(machine.project, folder)}:${process.env.PATH}` };
      await machine.play({ [folder]: [bash("echo done"), says("done")] });
      await machine.ok([...REQUIRED, folder], { env });
    }
    await until(() => zombiesOf(machine.daemonPid).length === 0, "the ended processes to be reaped");
  });

  test("works as outside: commits, pipes, exit codes, loopback, a temporary folder that lasts", async () => {
    await using machine = new Machine({ git: true });
    const results = await run(machine, [
      `echo a >a.txt && git add a.txt && ${IDENTITY} commit -qm "Add a" && git log --format=%s | head -1`,
      "echo kept >/tmp/note; exit 3",
      "cat /tmp/note; echo $TMPDIR; kill -KILL $$",
      "printf 'b\\na\\n' > >(sort >sorted); until [ -s sorted ]; do sleep 0.02; done; cat sorted",
      'python3 -c \'import socket as s; a=s.create_server(("127.0.0.1",0)); s.create_connection(a.getsockname()); print("connected")\'',
      "git init -q new && ls -d new/.git",
      "no-such-program",
    ]);
    expect(results).toEqual([
      "Add a",
      "[exit code 3]",
      // Bubblewrap around each program gives its own exit code.
      expect.stringMatching(/^kept\n\/tmp\n\[(ended by signal SIGKILL|exit code 137)\]$/),
      "a\nb",
      "connected",
      "new/.git",
      expect.stringContaining("[exit code 127]"),
    ]);
    expect(machine.has("/tmp/note")).toBe(false);
    const left = (): boolean => filesBelow(machine.project).some((path) => path.endsWith("/note"));
    await until(() => !left(), "the end of the temporary folder");
  });

  test("names the path that it refused, why, and what would allow it, to the model and to the user", async () => {
    await using machine = new Machine({ git: true });
    machine.write(join(machine.home, ".ssh/id"), "key");
    const model = await machine.play({
      "do it": [
        bash("git config user.name x"),
        bash("cat ~/.ssh/id"),
        bash('python3 -c \'open("/usr/new", "w")\''),
        bash("cat no-such-file; ls /no/such; git show no-such; true"),
        says("done"),
      ],
    });
    const { stderr } = await machine.ok([...REQUIRED, "do it"]);
    const [config, key, outside, missing] = toolResults(model.last);
    expect(config).toContain(`[${machine.project}/.git/config is protected by the sandbox`);
    expect(key).toContain(`[${machine.home}/.ssh/id is hidden by the sandbox`);
    expect(outside).toContain("[/usr/new is outside of the project. Only the user can allow it: --add /usr]");
    expect(missing).not.toMatch(/sandbox|--add/);
    expect(stderr).toContain(`${machine.home}/.ssh/id is hidden by the sandbox`);
    rmSync(join(machine.home, ".ssh"), { recursive: true });
  });

  test("shares its namespaces by the commands of a run: what one has left ends with its call, and none ends them", async () => {
    await using machine = new Machine({ git: true });
    dropPrivileges(machine);
    const results = await run(machine, [
      "readlink /proc/self/ns/mnt; setsid sleep 98761 >/dev/null 2>&1 </dev/null & sleep 0.1",
      "readlink /proc/self/ns/mnt; pgrep -f 'sleep 9876[1]'; kill -9 -1 2>&-; echo alive",
      "git init -q new; cd new; git commit --allow-empty -qm a; readlink /proc/self/ns/mnt",
      "readlink /proc/self/ns/mnt; readlink /proc/1/root; grep NoNewPrivs /proc/self/status",
    ]);
    const [first, second, , last] = results.map((text) => text.split("\n"));
    expect(first?.[0]).toMatch(/^mnt:/);
    expect(second).toEqual([first?.[0] ?? "", "alive"]);
    expect(last).toContain("NoNewPrivs:\t1");
  });

  test("commits in a work tree of another folder, whose hooks stay as they are", async () => {
    await using machine = new Machine({ git: true });
    const tree = join(machine.elsewhere, "tree");
    git(machine, "worktree", "add", "-q", tree);
    const model = await machine.play({
      "do it": [
        bash(`echo a >a && git add a && ${IDENTITY} commit -qm "Add a" && git log --format=%s -1`),
        bash(`echo x >${machine.project}/.git/hooks/post-commit`),
        bash("echo 'gitdir: /' >.git"),
        bash(`echo / >${machine.project}/.git/worktrees/tree/commondir`),
        says("done"),
      ],
    });
    await machine.ok([...REQUIRED, "do it"], { cwd: tree });
    const [commit, ...refused] = toolResults(model.last);
    expect(commit).toBe("Add a");
    expect(refused).toHaveLength(3);
    for (const text of refused) expect(text).toContain("Read-only file system");
  });

  test("binds no folder that a forged .git names", async () => {
    await using machine = new Machine();
    mkdirSync(join(machine.elsewhere, "objects"));
    machine.write(join(machine.elsewhere, "HEAD"), "ref: refs/heads/main\n");
    machine.write(".git", `gitdir: ${machine.elsewhere}\n`);
    const [text = ""] = await run(machine, [`echo x >${machine.elsewhere}/file`]);
    expect(text).toContain("No such file or directory");
  });

  test("leaves no trace in the project or the home, also after kill -9 of the daemon", async () => {
    await using machine = new Machine({ git: true });
    machine.write(".gitignore", ".rnix\n");
    git(machine, "add", ".gitignore");
    git(machine, "commit", "-qm", "Ignore");
    const files = (): string[] =>
      [machine.project, machine.home].flatMap(filesBelow).filter((path) => !path.includes("/.rnix/"));
    const before = files();
    await run(machine, ["true", "touch ~/.npmrc ~/x; git status --short"]);
    expect(files()).toEqual(before);
    await machine.play({ "hang on": [bash("touch held; rm held; touch .git/held; sleep 60"), says("done")] });
    const hanging = machine.start([...REQUIRED, "hang on"]);
    await until(() => machine.has(".git/held"), "its command");
    await machine.endDaemon();
    await hanging.done;
    await machine.run(["ps"]);
    expect(files().filter((path) => !path.endsWith(".git/held"))).toEqual(before);
  });

  test("with the level read-only, writes nothing but its temporary folder", async () => {
    await using machine = new Machine({ git: true });
    const flags = ["--sandbox-level", "read-only", "--output", "json"];
    const results = await run(machine, ["echo x >new", "echo x >/tmp/new && cat /tmp/new README.md"], flags);
    expect(results[0]).toContain("Read-only file system");
    expect(results[1]).toStartWith("x\n");
  });

  test("gives its children no more, whatever they ask for", async () => {
    await using machine = new Machine({ git: true });
    const levels = ["--sandbox off", "--sandbox-level project"];
    const lines = levels.map(
      (flags) =>
        `rnix spawn --no-stdin --output json ${flags} "the child" 2>/dev/null | grep -o '"sandbox":"[^"]*"'`,
    );
    const model = await machine.play({
      "do it": [bash(...lines), says("done")],
      "the child": [says("done")],
    });
    await machine.ok([...REQUIRED, "--sandbox-level", "read-only", "do it"]);
    const results = model.requests.flatMap(toolResults);
    expect(results).toEqual(levels.map(() => '"sandbox":"read-only (bubblewrap)"'));
  });

  test.if(installed("nsenter"))("has no network beside, with --network off", async () => {
    await using machine = new Machine({ git: true });
    const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("reached") });
    const read = `python3 -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:${server.port}').read())"`;
    const commands = [`${read} 2>&1 | tail -1`, "echo x >>.git/config; echo y >out; cat out"];
    const namespace = "readlink /proc/self/ns/mnt; grep NoNewPrivs /proc/self/status";
    const [reached, text, ...spaces] = await run(
      machine,
      [...commands, namespace, namespace],
      ["--network", "off"],
    );
    await server.stop(true);
    expect(spaces[0]).toMatch(/^mnt:.*\nNoNewPrivs:\t1$/);
    // Those of root share their namespaces here, too.
    if (process.getuid?.() === 0) expect(spaces[1]).toBe(spaces[0] ?? "");
    expect(reached).not.toContain("b'reached'");
    expect(text).toContain("Read-only file system");
    expect(text?.split("\n")).toContain("y");
  });

  test("gives the jobs that it adds no more, either", async () => {
    await using machine = new Machine({ git: true });
    machine.agent("planner", "name: planner\ndescription: d\nallowed_tools: [CronCreate]\n", "Plan.");
    await machine.play({
      "plan it": [calls(["CronCreate", { name: "own", intent: "the job", every: "1h" }]), says("done")],
      "the job": [says("done")],
    });
    writeKeys(machine);
    const flags = ["--agent", "planner", "--trust", "--sandbox-level", "read-only"];
    await machine.ok([...REQUIRED, ...flags, "plan it"]);
    await machine.ok(["cron", "run", "own"]);
    await machine.until(["show", "2"], /sandbox +read-only \(bubblewrap\)/);
  });

  test("resumes in a sandbox", async () => {
    await using machine = new Machine({ git: true });
    const model = await machine.play({
      "do it": [bash("touch held; sleep 60"), bash("echo x >>.git/config"), says("done")],
    });
    const command = machine.start([...REQUIRED, "--output", "json", "do it"]);
    await machine.held();
    command.signal("SIGINT");
    await command.done;
    const receipt = await machine.json(["resume", "--output", "json"]);
    expect(receipt.sandbox).toBe("project (bubblewrap)");
    expect(toolResults(model.last).at(-1)).toContain("Read-only file system");
  });

  test("lets a program that is asked to end do so in peace, in the background too", async () => {
    await using machine = new Machine({ git: true });
    const line = "trap 'echo ended >>ended; exit 5' TERM; touch $0; while :; do sleep 0.05; done";
    await machine.play({
      "do it": [
        calls(
          ["Bash", { command: `bash -c "${line}" unit`, run_in_background: true }],
          ["Bash", { command: `bash -c "${line}" held`, timeout_ms: 500 }],
        ),
        says("done"),
      ],
    });
    await machine.ok([...REQUIRED, "--on-units", "kill", "do it"]);
    expect(machine.read("ended")).toBe("ended\nended\n");
  });
});

describe.if(installed("bwrap"))("a run that names no sandbox", () => {
  const HOME = [bash("ls -d ~/.ssh; cat check-me"), says("done")];

  test("has one without a person at a terminal: by pipe, in CI, as a job, with the check; not at a terminal", async () => {
    await using machine = new Machine({ git: true });
    machine.config({ sandbox: "unattended" });
    mkdirSync(join(machine.home, ".ssh"));
    machine.write("check-me", "here\n");
    const model = await machine.play({ "do it": HOME });
    writeKeys(machine);
    const check = ["--check", "test ! -e ~/.ssh"];
    const receipt = await machine.json(["spawn", "--no-stdin", "--output", "json", ...check, "do it"]);
    expect(receipt).toMatchObject({ sandbox: "project (bubblewrap)", exit_code: 0, notices: [] });
    expect(toolResults(model.last)[0]).toMatch(/No such file[\s\S]*here/);
    await machine.ok(["cron", "add", "--name", "nightly", "--every", "1d", "do it"]);
    await machine.ok(["cron", "run", "nightly"]);
    await machine.until(["show", "2"], /sandbox +project \(bubblewrap\)/);
    const line = async (flags: string[], env: Record<string, string> = {}): Promise<string> =>
      (await machine.startAtTerminal(["spawn", ...flags, "do it"], { env }).done).screen;
    expect(await line([])).toContain("sandbox none");
    expect(await line(["--on-ask", "deny"])).toContain("sandbox project (bubblewrap)");
    expect(await line([], { CI: "1" })).toContain("sandbox project (bubblewrap)");
  });
});

/** Whether the system has Landlock: a program runs with it. */
function hasLandlock(): boolean {
  const grants = JSON.stringify({ read: ["/"], write: [] });
  return Bun.spawnSync([binary(), "__landlock", grants, "true"]).success;
}

describe("without bubblewrap", () => {
  /** A PATH with everything but bwrap. */
  function without(machine: Machine): string {
    const bin = join(machine.elsewhere, "bin");
    mkdirSync(bin);
    for (const name of ["bash", "sh", "cat", "git", "touch", "yes", "head", "true"])
      symlinkSync(Bun.which(name) ?? "", join(bin, name));
    return bin;
  }

  test("a required sandbox ends with 69 and the line that installs it; auto runs with a notice", async () => {
    await using machine = await Machine.playing({ "do it": [says("done")] });
    const env = { PATH: without(machine) };
    const refused = await machine.run([...REQUIRED, "do it"], { env });
    expect(refused.code).toBe(69);
    expect(refused.stderr).toContain("apt-get install bubblewrap");
    const args = ["spawn", "--no-stdin", "--sandbox", "auto", "--output", "json", "do it"];
    const receipt = await machine.json(args, { env });
    expect(receipt.sandbox).toBe(hasLandlock() ? "project (landlock)" : "none");
    expect(receipt.notices.join()).toContain("apt-get install bubblewrap");
  });

  test.if(hasLandlock())("Landlock keeps programs from keys and from writing elsewhere", async () => {
    await using machine = new Machine({ git: true });
    machine.write(join(machine.home, ".ssh/id"), "key");
    machine.write(join(machine.home, ".gitconfig"), "[user]\n\tname = a\n\temail = a@b.c\n");
    const model = await machine.play({
      "do it": [
        bash("cat ~/.ssh/id"),
        bash("touch /usr/rnix-test; echo >~/.bashrc; touch /etc/rnix-test"),
        bash("echo a >a && git add a && git commit -qm 'Add a' && echo b >$TMPDIR/b && cat $TMPDIR/b"),
        bash("yes | head -1; kill -KILL $$"),
        bash("cat /proc/$PPID/environ; exit 3"),
        says("done"),
      ],
    });
    const args = ["spawn", "--no-stdin", "--sandbox", "auto", "--output", "json", "do it"];
    const receipt = await machine.json(args, { env: { PATH: without(machine) } });
    const [key = "", outside = "", inside, ended, environment = ""] = toolResults(model.last);
    expect(key).toContain("Permission denied");
    expect(key).toContain(`[${machine.home}/.ssh/id is hidden by the sandbox`);
    expect(outside.match(/Permission denied/g)).toHaveLength(3);
    expect(inside).toBe("b");
    expect(ended).toBe("y\n[ended by signal SIGKILL]");
    expect(environment).toMatch(/Permission denied[\s\S]*\[exit code 3\]/);
    expect(receipt).toMatchObject({ sandbox: "project (landlock)", exit_code: 0 });
    for (const name of [".ssh", ".gitconfig"]) rmSync(join(machine.home, name), { recursive: true });
  });
});

const isRoot = process.getuid?.() === 0;

describe.if(isRoot && installed("bwrap", "setpriv", "nsenter", "unshare"))(
  "where user namespaces are switched off",
  () => {
    test("an ordinary user has no required sandbox, with the line that mends it; auto runs with a notice", async () => {
      using place = await withoutUserNamespaces();
      await using machine = await Machine.playing({ "do it": [bash("echo ran"), says("done")] });
      dropPrivileges(machine);
      machine.wrapper = [...place.wrapper, ...machine.wrapper];
      const MENDS = "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000";
      const refused = await machine.run([...REQUIRED, "do it"]);
      expect(refused.code).toBe(69);
      expect(refused.stderr).toContain(MENDS);
      expect((await machine.run(["doctor"])).stdout).toContain(MENDS);
      const receipt = await machine.json([
        "spawn",
        "--no-stdin",
        "--sandbox",
        "auto",
        "--output",
        "json",
        "do it",
      ]);
      expect(receipt).toMatchObject({ exit_code: 0, sandbox: hasLandlock() ? "project (landlock)" : "none" });
      expect(receipt.notices.join()).toContain(MENDS);
    });
  },
);
