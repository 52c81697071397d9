import { describe, expect, test } from "bun:test";
import { constants, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Turn } from "../support/model-server/script.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";

/**
 * The README's transcripts are real: every `console` block is typed again on a fresh machine, and what comes
 * out is compared with what stands there. `UPDATE_README=1 bun test test/e2e/readme.test.ts` writes it anew.
 */
const README = join(import.meta.dir, "../../README.md");
const BLOCK = /```console\n([\s\S]*?)```/g;

/** What the scripted model says in each of the README's conversations, by the intent's first word. */
const CONVERSATIONS: Record<string, Turn[]> = {
  What: [
    { tool_calls: [{ name: "Read", input: { path: "total.sh" } }] },
    { text: "It adds up the prices in prices.txt and prints the sum." },
  ],
  Fix: [
    { tool_calls: [{ name: "Bash", input: { command: "sh test.sh" } }] },
    {
      tool_calls: [
        {
          name: "Edit",
          input: { path: "total.sh", old_string: "total - price", new_string: "total + price" },
        },
      ],
    },
    { tool_calls: [{ name: "Bash", input: { command: "sh test.sh" } }] },
    { text: "total.sh subtracted the prices; now it adds them, and the test passes." },
  ],
};

const PROJECT = {
  "prices.txt": "apples 12\nbread 30\n",
  "total.sh":
    'total=0\nwhile read -r name price; do total=$((total - price)); done < prices.txt\necho "$total"\n',
  "test.sh":
    'got=$(sh total.sh)\n[ "$got" = 42 ] || { echo "FAIL: expected 42, got $got"; exit 1; }\necho PASS\n',
};

describe("README", () => {
  test("its transcripts are what a fresh machine prints", async () => {
    await using machine = new Machine();
    for (const [file, text] of Object.entries(PROJECT)) machine.write(file, text);
    machine.write(".rnix/.gitignore", "data/\n");
    // A copy: beside the checkout's own binary stand the checkout's plugins.
    copyFileSync(binary(), join(machine.project, "rnix"), constants.COPYFILE_FICLONE);
    await machine.model((request) => {
      const word = /"role":"user","content":"(\w+)/.exec(request.text)?.[1] ?? "";
      return (
        CONVERSATIONS[word]?.[request.assistantMessages] ?? { text: `no conversation begins with ${word}` }
      );
    });
    for (const name of ["RNIX_PROVIDER", "RNIX_MODEL"]) delete machine.env[name];

    const readme = readFileSync(README, "utf8");
    let fresh = "";
    let last = 0;
    for (const block of readme.matchAll(BLOCK)) {
      fresh += `${readme.slice(last, block.index)}\`\`\`console\n${await typed(machine, block[1] ?? "")}\`\`\``;
      last = block.index + block[0].length;
    }
    fresh += readme.slice(last);
    if (process.env.UPDATE_README === "1") writeFileSync(README, fresh);
    else expect(withoutTokens(fresh)).toBe(withoutTokens(readme));
  }, 120_000);

  test("the demo in it ends well and the exit codes in it are all there are", () => {
    const readme = readFileSync(README, "utf8");
    expect(readme).toContain("the project's own test");
    for (const code of ["| 0 |", "| 1 |", "| 2 |", "| 64 |", "| 69 |", "| 75 |", "| 130, 137, 143 |"]) {
      expect(readme).toContain(code);
    }
  });
});

/** Types the block's commands and gives back commands and output, with what differs from run to run replaced. */
async function typed(machine: Machine, block: string): Promise<string> {
  let transcript = "";
  for (const line of block.split("\n").filter((text) => text.startsWith("$ "))) {
    const shell = Bun.spawn(["/bin/sh", "-c", `${line.slice(2)} 2>&1`], {
      cwd: machine.project,
      env: machine.env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    transcript += `${line}\n${settled(await new Response(shell.stdout).text(), machine)}`;
    await shell.exited;
  }
  return transcript;
}

/** The replayed model counts what it is sent, and folders' names have another length on another machine. */
function withoutTokens(text: string): string {
  return text.replace(/, [\d.]+k? tokens/g, ", N tokens");
}

/** What is another one each time, in a form that is always the same. */
function settled(output: string, machine: Machine): string {
  let uuids = 0;
  const known = new Map<string, string>();
  return (
    output
      .replace(/\b[0-9a-f]{12}\b(?<!-[0-9a-f]{12})/g, "4f2fbff593b1")
      .replaceAll(machine.project, "~/project")
      .replaceAll(join(machine.dataDir), "~/.local/share/rnix")
      .replaceAll(machine.configDir, "~/.config/rnix")
      .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, (uuid) => {
        const same = known.get(uuid) ?? `01975a2e-0000-7000-8000-00000000000${++uuids}`;
        known.set(uuid, same);
        return same;
      })
      .replace(/run-[A-Za-z0-9]{6}/g, "run-Xy12Zq")
      .replace(/"elapsed_ms":\d+/g, '"elapsed_ms":120')
      .replace(/, \d+(?:\.\d+)?m?s,/g, ", 120ms,")
      // The column is wider than any of its times.
      .replace(/ {2,}\d+(?:\.\d+)?m?s\b/g, (time) => "120ms".padStart(time.length))
  );
}
