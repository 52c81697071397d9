import { describe, expect, test } from "bun:test";
import { chmodSync, constants, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { installed } from "../support/installed.ts";
import type { Turn } from "../support/model-server/script.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";

/**
 * The transcripts of README.md and docs/*.md are real: the commands of every `console` block run again on a fresh
 * machine for each document, and the output is compared with the block. A line `…` in a block stands for any lines.
 * `UPDATE_DOCS=1 bun test test/e2e/readme.test.ts` replaces each block that differs by the whole output.
 */
const ROOT = resolve(import.meta.dir, "../..");
const BLOCK = /```console\n([\s\S]*?)```/g;
const CUT = "…\n";
const DOCUMENTS = ["README.md", ...new Bun.Glob("docs/*.md").scanSync(ROOT)]
  .filter((name) => read(name).includes("```console\n"))
  .sort();

/** The answers of the scripted model for each intent of the transcripts, by the intent's beginning. */
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
  Check: [
    { tool_calls: [{ name: "Bash", input: { command: "sh test.sh" } }] },
    { text: "The prices add up to 42." },
  ],
  Release: [
    {
      tool_calls: [
        {
          name: "AskUser",
          input: {
            questions: [
              {
                header: "Day",
                question: "On which day does the shop open?",
                options: [{ label: "Friday" }, { label: "Saturday" }],
              },
            ],
          },
        },
      ],
    },
    { text: "The shop opens on that day." },
  ],
};

const PROJECT = {
  "prices.txt": "apples 12\nbread 30\n",
  "total.sh":
    'total=0\nwhile read -r name price; do total=$((total - price)); done < prices.txt\necho "$total"\n',
  "test.sh":
    'got=$(sh total.sh)\n[ "$got" = 42 ] || { echo "FAIL: expected 42, got $got"; exit 1; }\necho PASS\n',
};

/** On a machine of most pipelines. */
const LIMITS = "cgroup v1 (processes, memory), rlimit (open files, processor time, file size)";
const PIPELINE = "docs/ci.md";

describe("the transcripts", () => {
  test.each(DOCUMENTS.filter((name) => name !== PIPELINE || installed("bwrap")))(
    "of %s are what a fresh machine prints",
    async (name) => {
      await using machine = await prepared(name);
      const document = read(name);
      let fresh = "";
      let last = 0;
      for (const block of document.matchAll(BLOCK)) {
        const [all, body = ""] = block;
        const output = await outputOf(machine, body);
        fresh += document.slice(last, block.index);
        fresh += `\`\`\`console\n${fits(output, body) ? body : output}\`\`\``;
        last = block.index + all.length;
      }
      fresh += document.slice(last);
      if (process.env.UPDATE_DOCS === "1") writeFileSync(join(ROOT, name), fresh);
      else expect(fresh, "UPDATE_DOCS=1 writes the transcripts").toBe(document);
    },
    120_000,
  );

  test("stand in the README, the pipeline, the permissions and the plugins", () => {
    expect(DOCUMENTS).toEqual(
      expect.arrayContaining([
        "README.md",
        "docs/ci.md",
        "docs/first-day.md",
        "docs/permissions.md",
        "docs/plugins.md",
      ]),
    );
  });
});

test("docs/ci.md has every exit code", () => {
  for (const code of ["0", "1", "2", "64", "69", "75", "130, 137, 143"]) {
    expect(read("docs/ci.md")).toContain(`| ${code} |`);
  }
});

function read(name: string): string {
  return readFileSync(join(ROOT, name), "utf8");
}

/** A machine with the transcripts' project and a scripted model. */
async function prepared(document: string): Promise<Machine> {
  const machine = new Machine();
  for (const [file, text] of Object.entries(PROJECT)) machine.write(file, text);
  // A copy: beside the checkout's own binary stand the checkout's plugins.
  copyFileSync(binary(), join(machine.project, "rnix"), constants.COPYFILE_FICLONE);
  await machine.model((request) => {
    const word = /"role":"user","content":"(\w+)/.exec(request.text)?.[1] ?? "";
    return (
      CONVERSATIONS[word]?.[request.assistantMessages] ?? { text: `no conversation begins with ${word}` }
    );
  });
  for (const name of ["RNIX_PROVIDER", "RNIX_MODEL"]) delete machine.env[name];
  if (document === "docs/first-day.md") setUp(machine);
  // A pipeline has the sandbox of a run without a person.
  if (document === PIPELINE) machine.config({ sandbox: "unattended" });
  return machine;
}

/** The reader has installed rnix and set up a model. */
function setUp(machine: Machine): void {
  const { OPENAI_API_KEY, OPENAI_BASE_URL, PATH } = machine.env;
  const file = machine.write(
    join(machine.configDir, "env"),
    `OPENAI_API_KEY=${OPENAI_API_KEY}\nOPENAI_BASE_URL=${OPENAI_BASE_URL}\n`,
  );
  chmodSync(file, 0o600);
  Object.assign(machine.env, {
    PATH: `${machine.project}:${PATH}`,
    RNIX_PROVIDER: "openai",
    RNIX_MODEL: "gpt-5",
  });
}

/** Runs the block's commands and returns commands and output, with what differs from run to run replaced. */
async function outputOf(machine: Machine, block: string): Promise<string> {
  let transcript = "";
  for (const line of block.split("\n").filter((text) => text.startsWith("$ "))) {
    const shell = Bun.spawn(["/bin/sh", "-c", `${line.slice(2)} 2>&1`], {
      cwd: machine.project,
      env: machine.env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    });
    transcript += `${line}\n${normalized(await new Response(shell.stdout).text(), machine)}`;
    await shell.exited;
  }
  return transcript;
}

/** Whether the block shows this output, whole or with lines left out. */
function fits(output: string, block: string): boolean {
  const actual = withoutTokens(output);
  const [first = "", ...parts] = withoutTokens(block).split(new RegExp(`^${CUT}`, "m"));
  if (parts.length === 0) return actual === first;
  if (!actual.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = part === parts.at(-1) ? actual.lastIndexOf(part) : actual.indexOf(part, at);
    if (found < at) return false;
    at = found + part.length;
  }
  return at === actual.length;
}

/** The replayed model counts the tokens it is sent, and folders' names have another length on another machine. */
function withoutTokens(text: string): string {
  return text.replace(/, [\d.]+k? tokens/g, ", N tokens").replace(/ +\d+ +~\d+$/gm, " N");
}

/** The output with UUIDs, folders, hashes and times replaced by constant ones. */
function normalized(output: string, machine: Machine): string {
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
      // The id of a question.
      .replace(/(?<=question |answer |^)[0-9a-f]{8}(?=[ :])/gm, "77ab01de")
      .replace(/run-[A-Za-z0-9]{6}/g, "run-Xy12Zq")
      // When an entry of memory was written.
      .replace(/\b\d{4}-\d{2}-\d{2}(?= you\n|, in )/g, "2026-11-22")
      .replace(/"program_limits":"[^"]*"/, `"program_limits":"${LIMITS}"`)
      .replace(/"elapsed_ms":\d+/g, '"elapsed_ms":120')
      .replace(/, \d+(?:\.\d+)?m?s,/g, ", 120ms,")
      // The column is wider than any of its times.
      .replace(/ {2,}\d+(?:\.\d+)?m?s\b/g, (time) => "120ms".padStart(time.length))
  );
}
