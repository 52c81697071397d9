/** Two agents and an editor change one memory file at once, and the agents are killed. */
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEntries } from "../../../plugins/memory/entry-file.ts";
import { Folder } from "../../support/folder.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { until } from "../../support/until.ts";

/** A program of `programs.ts` with what it has confirmed. */
class Program {
  readonly confirmed: string[] = [];
  readonly #child: Bun.Subprocess<"pipe", "pipe", "inherit">;
  readonly #read: Promise<void>;

  constructor(name: string, dir: string, label: string) {
    const argv = [process.execPath, join(import.meta.dir, "programs.ts"), name, dir, label];
    this.#child = Bun.spawn(argv, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
    this.#read = this.#take(this.#child.stdout);
  }

  /** Ends it when it has done what it is doing. */
  async stop(): Promise<string[]> {
    await this.#child.stdin.end();
    expect(await this.#child.exited).toBe(0);
    await this.#read;
    return this.confirmed;
  }

  async kill(): Promise<string[]> {
    this.#child.kill("SIGKILL");
    await this.#child.exited;
    await this.#read;
    return this.confirmed;
  }

  async #take(stream: ReadableStream<Uint8Array>): Promise<void> {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      const lines = text.split("\n");
      text = lines.pop() ?? "";
      this.confirmed.push(...lines);
    }
  }
}

/** Agents that are killed one after the other, at moments that differ. */
const KILLS = 5;

test("two agents and an editor lose nothing, also under kill -9", async () => {
  using folder = new Folder(memoryFolder);
  const { dir } = folder;
  mkdirSync(join(dir, ".rnix/data/memory"), { recursive: true });
  const entries: string[] = [];
  const agents = ["a", "b"].map((label) => new Program("agent", dir, label));
  await Promise.all(agents.map((one) => until(() => one.confirmed.length > 0, "the first entry")));
  const editor = new Program("editor", dir, "e");
  await until(() => editor.confirmed.length > 3, "the editor");
  for (let n = 0; n < KILLS; n++) {
    const [next] = agents.splice(0, 1);
    const enough = (next?.confirmed.length ?? 0) + 1;
    await until(() => (next?.confirmed.length ?? 0) >= enough, "entries");
    await Bun.sleep(n * 70);
    entries.push(...((await next?.kill()) ?? []));
    agents.push(new Program("agent", dir, `n${n}`));
  }
  const lines = await editor.stop();
  for (const one of agents) entries.push(...(await one.stop()));
  // The next reader repairs what the last kill left.
  await new Program("agent", dir, "last").stop();
  const file = readFileSync(join(dir, ".rnix/data/memory/MEMORY.md"), "utf8");
  const texts = new Set(parseEntries(file).entries.map(({ text }) => text));
  expect(entries.length).toBeGreaterThan(KILLS);
  expect(lines.length).toBeGreaterThan(8);
  expect(entries.filter((one) => !texts.has(`${one}\nof two lines`))).toEqual([]);
  expect(lines.filter((one) => !texts.has(one))).toEqual([]);
  expect(readdirSync(join(dir, ".rnix/data/memory")).filter((name) => /swap|recovered/.test(name))).toEqual(
    [],
  );
}, 60_000);
