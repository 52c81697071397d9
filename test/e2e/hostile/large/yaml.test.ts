import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";

/** Each takes a parser that is quadratic in one of its sizes 5 s to minutes. */
const DOCUMENTS: Record<string, [text: string, says: string]> = {
  "open flow lists": ["[".repeat(20_000), "levels"],
  "closed flow lists": ["[".repeat(6000) + "]".repeat(6000), "levels"],
  "lists in lists on one line": ["- ".repeat(6000), "levels"],
  "keys that are keys": ["? ".repeat(6000), "all keys must be strings"],
  "mappings on one line": ["a: ".repeat(6000), "Nested mappings are not allowed"],
  "open quotes": ['a: "'.repeat(20_000), "config.yaml:1:"],
  "more keys than any user writes": [keys(10_000), "unknown key"],
  "more than the limit of a file": [keys(90_000), "at most 128 KiB"],
  "an alias within what it names": [
    "plugins: &a { shell: { extra: *a } }\n",
    "refers to a node that contains it",
  ],
  "more aliases than the limit": [`a: &a 1\nb: [${"*a,".repeat(20_000)}]`, "uses of aliases"],
};

function keys(count: number): string {
  return Array.from({ length: count }, (_, i) => `k${i}: 1\n`).join("");
}

const LONGEST_MS = 2500;

test("untrusted YAML that is too deep, wide or long is refused before it blocks the daemon", async () => {
  await using machine = new Machine();
  await machine.ok(["daemon", "start"]);
  const slow: string[] = [];
  for (const [name, [text, says]] of Object.entries(DOCUMENTS)) {
    machine.write(".rnix/config.yaml", text);
    const { code, stderr, ms } = await machine.run(["spawn", "do it"]);
    expect([name, code, stderr]).toEqual([name, 64, expect.stringContaining(says)]);
    if (ms > LONGEST_MS) slow.push(`${name}: ${ms} ms`);
  }
  expect(slow).toEqual([]);
});
