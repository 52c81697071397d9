import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { codeOf, program, temporaryFolder } from "../support.ts";

const LINE = '{"v":1,"step":1}';

function sealed(key: RecordKey, subject = "run 1", file = "steps.jsonl"): string {
  return key.sealOf(subject).seal(file, LINE);
}

describe("the key of a user's records", () => {
  test("is made once, for its user alone, and found by the next", () => {
    const path = join(temporaryFolder(), "data", "record.key");
    const key = RecordKey.open(path);
    expect(key.lasting).toBeTrue();
    expect(statSync(path)).toMatchObject({ size: 32 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(sealed(RecordKey.open(path))).toBe(sealed(key));
    expect(existsSync(`${path}.lock`)).toBeFalse();
    rmSync(path);
    expect(sealed(RecordKey.open(path))).not.toBe(sealed(key));
  });

  test("is the same for all processes that make it at the same time", async () => {
    const path = join(temporaryFolder(), "record.key");
    const makers = Array.from({ length: 8 }, () => program("makeKey", path));
    const keys = await Promise.all(
      makers.map(async (maker) => {
        await using child = maker;
        return (await new Response(child.stdout).text()).trim();
      }),
    );
    expect(keys).toEqual(keys.map(() => readFileSync(path, "hex")));
    expect(keys[0]).toHaveLength(64);
  });

  test("of another form is refused, not replaced", async () => {
    const folder = temporaryFolder();
    const path = join(folder, "record.key");
    for (const text of ["", "short", "x".repeat(33)]) {
      writeFileSync(path, text);
      expect(await codeOf(() => RecordKey.open(path))).toBe("UNAVAILABLE");
      expect(readFileSync(path, "utf8")).toBe(text);
    }
    rmSync(path);
    writeFileSync(join(folder, "other"), "x".repeat(32));
    symlinkSync("other", path);
    expect(await codeOf(() => RecordKey.open(path))).toBe("INVALID");
    rmSync(path);
    mkdirSync(path);
    expect(await codeOf(() => RecordKey.open(path))).toBe("UNAVAILABLE");
  });

  test("lasts as long as the process where no file can be written", () => {
    const file = join(temporaryFolder(), "a-file");
    writeFileSync(file, "");
    const key = RecordKey.open(join(file, "record.key"));
    expect(key.lasting).toBeFalse();
    expect(sealed(RecordKey.open(join(file, "record.key")))).not.toBe(sealed(key));
  });
});

describe("a seal", () => {
  const key = RecordKey.temporary();
  const seal = key.sealOf("run 1");
  const text = sealed(key);

  test("adds one key to the object and changes no other", () => {
    expect(JSON.parse(text)).toEqual({ v: 1, step: 1, mac: expect.stringMatching(/^[\w-]{22}$/) });
    expect(seal.isSealed("steps.jsonl", text)).toBeTrue();
    expect(seal.isSealed("steps.jsonl", Buffer.from(text))).toBeTrue();
    const wide = seal.seal("steps.jsonl", JSON.stringify({ text: "ü€😀" }));
    expect(seal.isSealed("steps.jsonl", Buffer.from(wide))).toBeTrue();
  });

  test.each([
    ["no MAC", LINE],
    ["an empty text", ""],
    ["an empty object", "{}"],
    ["another character", text.replace("step", "Step")],
    ["another MAC", text.replace(/.{5}"}$/, 'AAAAA"}')],
    ["a MAC of other characters", text.replace(/.{5}"}$/, '+/+/+"}')],
    ["more behind it", `${text} `],
    ["the MAC of another run", sealed(key, "run 2")],
    ["the MAC of another file", sealed(key, "run 1", "step.journal")],
    ["the MAC of another user", sealed(RecordKey.temporary())],
    ["a MAC that is not the last key", text.replace("}", ',"step":2}')],
  ])("does not fit %s", (_, changed) => {
    expect(seal.isSealed("steps.jsonl", changed)).toBeFalse();
    expect(seal.isSealed("steps.jsonl", Buffer.from(changed))).toBeFalse();
  });

  test("fits no text of which a part is missing", () => {
    for (let end = 0; end < text.length; end++)
      expect(seal.isSealed("steps.jsonl", text.slice(0, end))).toBeFalse();
  });
});
