import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { ModelServer } from "../support/model-server/server.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says, scenes } from "./support/scenes.ts";
import { Receipt, refusal } from "./support/verdict.ts";

setDefaultTimeout(30_000);

const book = {
  "write it": [
    calls(["Write", { path: "a.txt", content: "x" }]),
    calls(["Bash", { command: "echo x > b.txt" }]),
    says("could not"),
  ],
};

test("where a project's data folder can't be made, a run is refused before it costs anything, with what to do", async () => {
  await using machine = new Machine();
  const model = await machine.model(scenes(book));
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

/** A mount of one's own needs root, or a kernel that lets everybody have user namespaces. */
const OWN_MOUNTS = [
  ["unshare", "--mount"],
  ["unshare", "--user", "--map-root-user", "--mount"],
].find((command) => Bun.spawnSync([...command, "sh", "-c", "mount -t tmpfs none /mnt"]).success);

describe.skipIf(OWN_MOUNTS === undefined)(
  "on a disk that is really so (a mount of the command's own)",
  () => {
    test("a read-only project: refused, with what to do; and with its data elsewhere it can be worked on", async () => {
      await using machine = new Machine();
      const model = await machine.model(scenes(book));
      machine.wrapper = withMounts(
        `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"`,
        machine.project,
      );
      for (const where of [[], ["--no-daemon"]]) {
        const { receipt, stderr } = await refusal(machine, ["write it", ...where]);
        expect(receipt).toMatchObject({ exit_code: 69, exit_reason: "unavailable" });
        for (const part of ["read-only", "RNIX_DATA_DIR"]) {
          expect(receipt.error?.message).toContain(part);
          expect(stderr).toContain(part);
        }
        expect(model.requests).toEqual([]);
      }
      const { stdout, code } = await machine.run(["spawn", "write it", "--output", "json"], {
        env: { RNIX_DATA_DIR: machine.elsewhere },
      });
      const receipt = Receipt.parse(JSON.parse(stdout));
      expect(receipt).toMatchObject({ exit_code: code, exit_reason: "completed", files_changed: [] });
      const [write, bash] = toolResults(last(model));
      expect(write).toMatch(/^Error PERMISSION: .*read-only/);
      expect(bash).toContain("Read-only file system");
      machine.wrapper = [];
    });

    test("a disk that fills up while a run goes on: exit 1, record_error, and no effect of a step unrecorded", async () => {
      await using machine = new Machine();
      const more = { text: "x".repeat(40_000), ...calls(["Bash", { command: "echo once >> effects" }]) };
      const model = await machine.model(scenes({ "fill it": [more] }));
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
  },
);

function withMounts(mount: string, folder: string): string[] {
  const own = OWN_MOUNTS ?? [];
  return [...own, "sh", "-c", `${mount} && cd "$PWD" && exec "$@"`, folder];
}

function last(model: ModelServer) {
  const request = model.requests.at(-1);
  if (request === undefined) throw new Error("the model was never asked");
  return request;
}
