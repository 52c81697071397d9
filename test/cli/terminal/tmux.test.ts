import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../../support/until.ts";

const PROGRAM = join(import.meta.dir, "programs/live.ts");
const folder = mkdtempSync(join(tmpdir(), "rnix-tmux-"));
const env = { PATH: process.env.PATH ?? "", HOME: folder, PS1: "$ ", HISTFILE: "", TERM: "xterm-256color" };

function tmux(...args: string[]): string {
  const done = Bun.spawnSync(["tmux", "-S", join(folder, "socket"), "-f", "/dev/null", ...args], { env });
  if (!done.success) throw new Error(`tmux ${args.join(" ")}: ${done.stderr}`);
  return done.stdout.toString();
}

afterAll(() => {
  Bun.spawnSync(["tmux", "-S", join(folder, "socket"), "kill-server"], { env, stderr: "ignore" });
  rmSync(folder, { recursive: true, force: true });
});

// The one terminal beside xterm.js that can be had in a test: it wraps lines again, and in its own way.
describe.skipIf(Bun.which("tmux") === null)("in tmux", () => {
  for (const [name, cursor] of [
    ["without-a-cursor", ""],
    ["with-a-cursor-in-its-middle", "C"],
  ] as const) {
    test(`resizes leave one copy of everything, a region ${name}`, async () => {
      tmux("new-session", "-d", "-s", name, "-x", "80", "-y", "24", "bash", "--norc", "--noediting");
      const screen = () => tmux("capture-pane", "-t", name, "-p");
      const transcript = () => tmux("capture-pane", "-t", name, "-p", "-J", "-S", "-").trimEnd().split("\n");
      const type = (keys: string) => tmux("send-keys", "-t", name, keys);
      await until(() => screen().trim() === "$");
      type(`for i in $(seq 40); do echo user $i; done; ${process.execPath} ${PROGRAM}\r`);
      await until(() => screen().includes("live 80x24"));
      type(`cc${cursor}`);
      const sizes = ["50x24", "30x24", "100x24", "100x12", "60x12", "60x30", "25x9", "90x40"];
      for (const size of sizes) {
        const [columns = "", rows = ""] = size.split("x");
        tmux("resize-window", "-t", name, "-x", columns, "-y", rows);
        await until(() => screen().includes(`live ${size}`));
        type("c");
      }
      await until(() => screen().includes(`committed ${2 + sizes.length}`));
      type("q");
      await until(() => screen().includes("the end"));
      const lines = transcript().filter((line) => !line.includes("for i in") && line.trim() !== "$");
      const users = Array.from({ length: 40 }, (_, at) => `user ${at + 1}`);
      const committed = Array.from({ length: 2 + sizes.length }, (_, at) => `committed ${at + 1}`);
      expect(lines.slice(lines.indexOf("user 1"))).toEqual([...users, ...committed, "the end"]);
    }, 60_000);
  }
});
