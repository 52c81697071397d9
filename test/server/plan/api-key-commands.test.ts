import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Secrets } from "../../../src/kernel/process/secrets.ts";
import { realClock } from "../../../src/lib/clock.ts";
import type { Children } from "../../../src/os/children.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { CommandKeys } from "../../../src/server/plan/run-environment.ts";
import { failure } from "../../config/sandbox.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { programsIn } from "../../support/programs.ts";
import { until } from "../../support/until.ts";

const dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-keys-")));
const spillDir = join(dir, "spill");
const lockDir = join(dir, "locks");
let children: Children;

beforeAll(() => {
  children = programsIn(dir);
});

afterAll(async () => {
  await children.close();
  rmSync(dir, { recursive: true, force: true });
});

const ENV = { PATH: process.env.PATH ?? "/usr/bin:/bin" };
let folders = 0;

/** A command in its own folder, which prints its file `key` and records that it ran. */
function world(script = "cat key") {
  const cwd = join(dir, `cwd-${++folders}`);
  mkdirSync(cwd);
  writeFileSync(join(cwd, "key"), "sk-first-key\n");
  const clock = new FakeClock();
  const keys = new CommandKeys({ children, clock, spillDir, lockDir, fetched: new Secrets() });
  const command = { command: `echo ran >> runs; ${script}`, file: "providers.yaml", cwd };
  return {
    cwd,
    clock,
    source: (env: Record<string, string> = ENV) => keys.of(command, env, ["MY_TOKEN"]),
    runs: () =>
      existsSync(join(cwd, "runs")) ? readFileSync(join(cwd, "runs"), "utf8").split("\n").length - 1 : 0,
    nowPrints: (key: string) => writeFileSync(join(cwd, "key"), `${key}\n`),
  };
}

describe("the key of a command", () => {
  test("is its trimmed output, run in its folder, and is cached for a while", async () => {
    const { source, runs, clock, nowPrints } = world();
    expect(await source().key()).toBe("sk-first-key");
    nowPrints("sk-second-key");
    expect(await source().key()).toBe("sk-first-key");
    expect(runs()).toBe(1);
    await clock.advance(5 * 60_000);
    expect(await source().key()).toBe("sk-second-key");
    expect(runs()).toBe(2);
  });

  test("is fetched once for simultaneous requests", async () => {
    const { source, runs } = world("sleep 0.1; cat key");
    const keys = await Promise.all(Array.from({ length: 20 }, () => source().key()));
    expect(new Set(keys)).toEqual(new Set(["sk-first-key"]));
    expect(runs()).toBe(1);
  });

  test("that was refused is fetched once more, however many calls were refused", async () => {
    const { source, runs, nowPrints } = world("sleep 0.05; cat key");
    const refused = await source().key();
    nowPrints("sk-second-key");
    const renewed = await Promise.all(Array.from({ length: 10 }, () => source().renew(refused)));
    expect(renewed).toEqual(Array.from({ length: 10 }, () => true));
    // One that hears of its refusal late has the new key already.
    expect(await source().renew(refused)).toBe(true);
    expect(await source().key()).toBe("sk-second-key");
    expect(runs()).toBe(2);
  });

  test("that is unchanged after a refusal is not a new key", async () => {
    const { source, runs } = world();
    expect(await source().renew(await source().key())).toBe(false);
    expect(runs()).toBe(2);
  });

  test("is cached per environment, except for the variables of a terminal", async () => {
    const { source, runs } = world('echo "sk-$PROFILE-key"');
    expect(await source({ ...ENV, PROFILE: "a" }).key()).toBe("sk-a-key");
    expect(await source({ ...ENV, PROFILE: "b" }).key()).toBe("sk-b-key");
    expect(await source({ ...ENV, PROFILE: "b", SHLVL: "3", TERM: "xterm", RNIX_MODEL: "m" }).key()).toBe(
      "sk-b-key",
    );
    expect(runs()).toBe(2);
  });

  test("is not fetched with other providers' keys in the environment", async () => {
    const { source } = world('echo "sk-none$OPENAI_API_KEY$MY_TOKEN"');
    expect(await source({ ...ENV, OPENAI_API_KEY: "secret-of-openai", MY_TOKEN: "mine" }).key()).toBe(
      "sk-none",
    );
  });
});

test("two kernels run the command of one credential one after the other", async () => {
  const script = "mkdir busy || echo both at once >> wrong; sleep 0.1; rmdir busy; cat key";
  const { cwd } = world();
  const keys = await Promise.all(
    Array.from({ length: 4 }, () => {
      const kernel = new CommandKeys({
        children,
        clock: realClock,
        spillDir,
        lockDir,
        fetched: new Secrets(),
      });
      return kernel.of({ command: script, file: "providers.yaml", cwd }, ENV, []).key();
    }),
  );
  expect(new Set(keys)).toEqual(new Set(["sk-first-key"]));
  expect(existsSync(join(cwd, "wrong"))).toBe(false);
  expect(readdirSync(lockDir)).toEqual([]);
});

describe("a command without a key is UNAVAILABLE, and the error names it and the reason", () => {
  test.each([
    ["fails", "echo first >&2; echo 'store is locked' >&2; exit 3", "ended with 3: store is locked"],
    [
      "fails after it has printed one",
      'cat key; echo "cannot use $(cat key)" >&2; exit 1',
      "ended with 1: cannot use …",
    ],
    ["prints nothing", "true", "printed nothing"],
    ["prints a text", "echo hello there", "not a key"],
    ["prints two lines", "echo a; echo b", "not a key"],
    ["prints more than a key", "head -c 200000 /dev/zero | tr '\\0' x", "more than 65536 characters"],
    ["prints without end", "yes", "more than 65536 characters"],
    ["is killed", "kill -9 $$", "SIGKILL"],
  ])("one that %s", async (_, script, words) => {
    const { source, runs } = world(script);
    const error = await failure(() => source().key());
    expect(error).toBeInstanceOf(SyscallError);
    expect(error.code).toBe("UNAVAILABLE");
    expect(error.message).toContain(words);
    expect(error.message).toContain("providers.yaml");
    expect(error.message).not.toContain("sk-first-key");
    // The next request runs it again.
    await failure(() => source().key());
    expect(runs()).toBe(2);
  });
});

test("a command that takes longer than a minute is ended, and the error says so", async () => {
  const { source, clock } = world("touch begun; sleep 600");
  const asked = failure(() => source().key());
  await until(() => clock.waits.includes(60_000), "the command's deadline");
  await clock.advance(60_000);
  expect((await asked).message).toContain("did not finish within 60 s");
});

test("no output of the commands is on the disk", () => {
  expect(existsSync(spillDir) ? readdirSync(spillDir) : []).toEqual([]);
  for (const file of readdirSync(join(dir, "children"))) {
    expect(readFileSync(join(dir, "children", file), "utf8")).not.toContain("sk-first-key");
  }
});
