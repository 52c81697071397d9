import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { Receipt, receiptOf, refusal } from "./support/verdict.ts";

const book = {
  "write it": [calls(["Write", { path: "a.txt", content: "x" }]), bash("echo x > b.txt"), says("could not")],
};

test("a run whose project has no writable data folder is refused before it costs anything; the error says what to do", async () => {
  await using machine = new Machine();
  const model = await machine.play(book);
  const file = machine.write("a-file", "");
  for (const where of [[], ["--no-daemon"]]) {
    const { receipt, stderr } = await refusal(machine, ["write it", ...where], {
      env: { RNIX_DATA_DIR: join(file, "data") },
    });
    expect(receipt).toMatchObject({ exit_code: 69, exit_reason: "unavailable" });
    for (const part of [join(file, "data"), "RNIX_DATA_DIR"]) {
      expect(receipt.error?.message).toContain(part);
      expect(stderr).toContain(part);
    }
    expect(model.requests).toEqual([]);
  }
});

/** A private mount needs root, or a kernel that allows user namespaces for every user. */
const OWN_MOUNTS = [
  ["unshare", "--mount"],
  ["unshare", "--user", "--map-root-user", "--mount"],
].find((command) => Bun.spawnSync([...command, "sh", "-c", "mount -t tmpfs none /mnt"]).success);

describe.skipIf(OWN_MOUNTS === undefined)("on a real disk (the command's own mount)", () => {
  test("a run in a read-only project keeps its record elsewhere and says so; RNIX_DATA_DIR says where", async () => {
    await using machine = new Machine();
    const model = await machine.play(book);
    machine.wrapper = withMounts(`mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"`, machine.project);
    const note = `${machine.project} can't be written: the record of the run is in ${join(machine.root, "data/rnix")}`;
    for (const [args, env, notices] of [
      [[], {}, [expect.stringContaining(note)]],
      [["--no-daemon"], {}, [expect.stringContaining(note)]],
      [[], { RNIX_DATA_DIR: machine.elsewhere }, []],
    ] as const) {
      const { stdout, code } = await machine.run(["spawn", "write it", "--output", "json", ...args], { env });
      const receipt = Receipt.parse(JSON.parse(stdout));
      expect(receipt).toMatchObject({
        exit_code: code,
        exit_reason: "completed",
        files_changed: [],
        notices,
      });
      const [write, bash] = toolResults(model.last);
      expect(write).toMatch(/^Error PERMISSION: .*read-only/);
      expect(bash).toContain("Read-only file system");
    }
    machine.wrapper = [];
  });

  test("a disk that fills up during a run: exit 1, record_error, and every effect of a step is recorded", async () => {
    await using machine = new Machine();
    const more = { text: "x".repeat(40_000), ...bash("echo once >> effects") };
    const model = await machine.play({ "fill it": [more] });
    const small = join(machine.root, "small");
    mkdirSync(small);
    machine.wrapper = withMounts(`mount -t tmpfs -o size=512k none "$0"`, small);
    const { stdout, stderr, code } = await machine.run(
      ["spawn", "fill it", "--no-daemon", "--output", "json"],
      {
        env: { RNIX_DATA_DIR: join(small, "data") },
      },
    );
    const receipt = Receipt.parse(JSON.parse(stdout));
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "record_error" });
    expect(code).toBe(1);
    expect(receipt.error?.message).toMatch(/the disk is full\. Free some space/);
    expect(stderr).toMatch(/the disk is full\. Free some space/);
    const effects = machine.read("effects").trimEnd().split("\n").length;
    expect(effects).toBe(receipt.tool_calls);
    expect(model.requests.length).toBeLessThanOrEqual(effects + 1);
    machine.wrapper = [];
  });
});

describe.skipIf(OWN_MOUNTS === undefined)("when the disk takes records again, the run goes on", () => {
  for (const [what, refuse, relent] of [
    ["full", "dd if=/dev/zero of=$DISK/filler bs=1k count=9999 2>/dev/null; true", "rm $DISK/filler"],
    ["read-only", "mount -o remount,ro $DISK", "mount -o remount,rw $DISK"],
  ] as const) {
    for (const where of [[], ["--no-daemon"]]) {
      test(`it was ${what} (${where[0] ?? "daemon"}): record_error before the effect, then rnix resume ends it, and each effect is there once`, async () => {
        await using machine = new Machine();
        await using disk = await Disk.mount(machine);
        let refused = false;
        const model = await machine.model(async (request) => {
          const effects = toolResults(request).length;
          if (effects === 2) return says("done");
          if (effects === 1 && !refused) await disk.run(refuse);
          refused ||= effects === 1;
          // Too long for what is left of a block that the journal has already.
          const text = "x".repeat(effects * 40_000);
          return { text, ...bash(`echo ${effects + 1} >> effects`) };
        });
        const env = { RNIX_DATA_DIR: join(disk.path, "data") };
        const spawned = await machine.run(["spawn", "write it", "--output", "json", ...where], { env });
        const receipt = receiptOf(spawned);
        expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "record_error" });
        expect(receipt.error?.message).toMatch(
          what === "full" ? /the disk is full/ : /the disk is read-only/,
        );
        expect(machine.read("effects")).toBe("1\n");
        // Its record still shows it as running; the same daemon answers how it ended.
        if (where.length === 0) {
          const { uuid } = receipt;
          const waited = await machine.run(["wait", uuid, "--json"], { env });
          expect(waited.code).toBe(1);
          const ended = { uuid, exit_code: 1, exit_reason: "record_error" };
          expect(JSON.parse(waited.stdout)).toMatchObject(ended);
          const dead = { ...ended, state: "dead" };
          expect(await machine.json(["ps", "-a", "--json"], { env })).toMatchObject([dead]);
          const shown = await machine.json(["show", uuid, "--json"], { env });
          expect(shown).toMatchObject({ ...dead, live: false });
        }
        // Until then it can't be resumed, and trying loses nothing.
        const tooEarly = await machine.run(["resume", receipt.uuid, ...where], { env });
        expect(tooEarly.code).not.toBe(0);
        await disk.run(relent);
        const resumed = await machine.run(["resume", receipt.uuid, "--output", "json", ...where], { env });
        expect(receiptOf(resumed)).toMatchObject({ exit_code: 0, result: "done" });
        expect(machine.read("effects")).toBe("1\n2\n");
        expect(model.requests.flatMap(toolResults).join()).not.toContain("may or may not");
        expect((await machine.run(["steps", receipt.uuid], { env })).stdout).toContain("Bash");
      });
    }
  }
});

test.skipIf(OWN_MOUNTS === undefined)(
  "the first ps -a after a full disk says of each of several runs how it ended",
  async () => {
    await using machine = new Machine();
    await using disk = await Disk.mount(machine);
    const env = { RNIX_DATA_DIR: join(disk.path, "data") };
    const intents = ["one", "two", "three"];
    let running = 0;
    const filled = Promise.withResolvers<void>();
    await machine.model(async (request) => {
      if (toolResults(request).length === 0) return bash("true");
      running++;
      if (running === intents.length) {
        await disk.run("dd if=/dev/zero of=$DISK/filler bs=1k count=9999 2>/dev/null; true");
        filled.resolve();
      }
      await filled.promise;
      return { text: "x".repeat(40_000), ...bash("true") };
    });
    const ended = await Promise.all(
      intents.map((intent) => machine.run(["spawn", intent, "--output", "json"], { env })),
    );
    for (const one of ended) expect(receiptOf(one).exit_reason).toBe("record_error");
    await disk.run("rm $DISK/filler");
    const listed = await machine.json(["ps", "-a", "--json"], { env });
    expect(listed).toMatchObject(intents.map(() => ({ state: "dead", exit_reason: "record_error" })));
  },
);

for (const where of [[], ["--no-daemon"]]) {
  test.skipIf(OWN_MOUNTS === undefined)(
    `a run whose end does not fit on the disk does not end with 0 (${where[0] ?? "daemon"})`,
    async () => {
      await using machine = new Machine();
      await using disk = await Disk.mount(machine);
      const env = { RNIX_DATA_DIR: join(disk.path, "data") };
      await machine.model(async (request) => {
        if (toolResults(request).length === 0) return bash("true");
        await disk.run("dd if=/dev/zero of=$DISK/filler bs=1k count=9999 2>/dev/null; true");
        // Short enough for what is left of a block.
        return says("ok");
      });
      const ended = await machine.run(["spawn", "go", "--output", "json", ...where], { env });
      const failed = { exit_code: 1, exit_reason: "record_error", result: "ok" };
      expect(receiptOf(ended)).toMatchObject(failed);
      await disk.run("rm $DISK/filler");
      if (where.length === 0)
        expect(await machine.json(["ps", "-a", "--json"], { env })).toMatchObject([failed]);
    },
  );
}

test.skipIf(OWN_MOUNTS === undefined)(
  "a full disk starts no run, at no cost; rnix gc frees space on it, and still knows the removed runs",
  async () => {
    await using machine = new Machine();
    await using disk = await Disk.mount(machine);
    const model = await machine.play({ "fill it": [says("y".repeat(40_000))] });
    machine.config({ retention_runs: 1 });
    const env = { RNIX_DATA_DIR: join(disk.path, "data") };
    const uuids: string[] = [];
    for (let run = 0; run < 3; run++) {
      const { stdout } = await machine.run(["spawn", "fill it", "--output", "json"], { env });
      uuids.push(Receipt.parse(JSON.parse(stdout)).uuid);
    }
    await disk.run("dd if=/dev/zero of=$DISK/filler bs=1k count=9999 2>/dev/null; true");
    for (const where of [[], ["--no-daemon"]]) {
      const { receipt } = await refusal(machine, ["fill it", ...where], { env });
      expect(receipt).toMatchObject({ exit_code: 69, exit_reason: "unavailable" });
      expect(receipt.error?.message).toContain("the disk is full");
    }
    expect(model.requests).toHaveLength(3);
    const { code, stdout, stderr } = await machine.run(["gc"], { env });
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("runs removed");
    expect((await machine.run(["log", uuids[0] ?? ""], { env })).stderr).toContain("was collected by gc");
    await machine.ok(["spawn", "fill it"], { env });
  },
);

/** A small disk that only the commands of one machine see: it is mounted in their own mount namespace. */
class Disk implements AsyncDisposable {
  readonly path: string;
  readonly #machine: Machine;
  readonly #holder: Bun.Subprocess<"ignore", "pipe">;
  readonly #enter: string[];

  static async mount(machine: Machine): Promise<Disk> {
    const path = join(machine.root, "small");
    mkdirSync(path);
    const mount = `mount -t tmpfs -o size=4m none "$0" && echo mounted && exec sleep 600`;
    const holder = Bun.spawn([...(OWN_MOUNTS ?? []), "sh", "-c", mount, path], {
      stdin: "ignore",
      stdout: "pipe",
      cwd: "/",
    });
    const { value } = await holder.stdout.getReader().read();
    if (!value) throw new Error("the disk could not be mounted");
    return new Disk(machine, path, holder);
  }

  private constructor(machine: Machine, path: string, holder: Bun.Subprocess<"ignore", "pipe">) {
    this.path = path;
    this.#machine = machine;
    this.#holder = holder;
    const user = OWN_MOUNTS?.includes("--user") ? ["--user", "--preserve-credentials"] : [];
    this.#enter = ["nsenter", "--target", String(holder.pid), "--mount", ...user, `--wd=${machine.project}`];
    machine.wrapper = this.#enter;
  }

  /** `$DISK` is where it is mounted. */
  async run(script: string): Promise<void> {
    const done = Bun.spawn([...this.#enter, "sh", "-c", script], {
      env: { PATH: process.env.PATH, DISK: this.path },
      stderr: "pipe",
    });
    if ((await done.exited) !== 0) throw new Error(`${script}: ${await new Response(done.stderr).text()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The daemon has its data there.
    await this.#machine.run(["daemon", "stop"]);
    this.#machine.wrapper = [];
    this.#holder.kill("SIGKILL");
    await this.#holder.exited;
  }
}

function withMounts(mount: string, folder: string): string[] {
  const own = OWN_MOUNTS ?? [];
  return [...own, "sh", "-c", `${mount} && cd "$PWD" && exec "$@"`, folder];
}
