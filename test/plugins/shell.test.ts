import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import plugin from "../../plugins/shell.ts";
import {
  type Child,
  type Code,
  type Data,
  type ExitInfo,
  O_RDWR,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { exchange, text } from "../support/conformance/vfs-file.ts";
import { failure } from "../support/failure.ts";
import { isAlive } from "../support/is-alive.ts";
import { measured } from "../support/measured.ts";
import { type OpenContextOptions, openContext, type RealContext } from "../support/open-context.ts";
import { until } from "../support/until.ts";

const never = new AbortController().signal;

let root: string;
let dir: string;
const open: RealContext[] = [];

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-shell-")));
  dir = join(root, "project");
  mkdirSync(dir);
});

afterEach(async () => {
  for (const real of open.splice(0)) await real[Symbol.asyncDispose]();
  rmSync(root, { recursive: true, force: true });
});

function real(o: OpenContextOptions = {}): RealContext {
  const made = openContext(dir, join(root, "kept"), o);
  open.push(made);
  return made;
}

async function start(context: OpenContext, flags: OpenFlag = O_RDWR): Promise<VFSFile> {
  return plugin.devices["/dev/shell"].factory("", flags, context);
}

/** One call of the tool: what the model is shown. */
async function bash(input: object | string, context = real().context, signal = never): Promise<string> {
  const file = await start(context);
  try {
    const data = typeof input === "string" ? input : JSON.stringify({ op: "bash", ...input });
    return text(await exchange(file, data, { signal }));
  } finally {
    await file.close();
  }
}

describePlugin("shell", () => import("../../plugins/shell.ts"), {
  operations: [
    {
      title: "runs a command",
      device: "/dev/shell",
      input: { op: "bash", command: "echo hello" },
      answer: (answer) => expect(answer).toBe("hello"),
    },
    {
      title: "takes bytes that are not JSON for the command",
      device: "/dev/shell",
      input: "echo hello",
      answer: (answer) => expect(answer).toBe("hello"),
    },
    {
      title: "refuses an empty command",
      device: "/dev/shell",
      input: { op: "bash", command: " " },
      error: "INVALID",
    },
  ],
  endless: { device: "/dev/shell", input: { op: "bash", command: "sleep 60" } },
});

describe("the result is the output and the end of a command", () => {
  const GRID: [string, string, string][] = [
    ["its output", "echo hello; echo again", "hello\nagain"],
    ["its errors in between, in order", "echo a; echo b >&2; echo c", "a\nb\nc"],
    ["nothing", "true", "[no output]"],
    ["a failure", "echo oh; exit 3", "oh\n[exit code 3]"],
    ["a failure without a word", "exit 1", "[exit code 1]"],
    ["a command that is not there", "no-such-command 2>/dev/null", "[exit code 127]"],
    ["a signal", "echo dying; kill -KILL $$", "dying\n[ended by signal SIGKILL]"],
    ["empty lines within, not the newline at the end", "printf '\\n\\na\\n\\n'", "\n\na\n"],
    ["an output without a newline", "printf a", "a"],
    ["many languages", "printf 'grüße 名前 🚀'", "grüße 名前 🚀"],
    ["colours as they are", "printf '\\033[31mred\\033[0m'", "\x1b[31mred\x1b[0m"],
    ["what is not UTF-8, made visible", "printf 'a\\377b'", "a\uFFFDb"],
    ["a command that begins with a dash", "-no-such-option 2>/dev/null; echo went on", "went on"],
    ["the end of an empty stdin", "cat; echo done", "done"],
    ["the line of a mistake", "echo a\n)", expect.stringMatching(/line 2: syntax error/)],
    ["a quote that is not closed", "echo 'a 2>/dev/null", expect.stringContaining("[exit code")],
  ];
  for (const [title, command, answer] of GRID) {
    test(title, async () => {
      expect(await bash({ command })).toEqual(answer);
    });
  }

  test("in bash when the run's PATH has one, in sh otherwise", async () => {
    const command = "echo $BASH";
    expect(await bash({ command })).toEndWith("/bash");
    expect(await bash({ command }, real({ env: { PATH: "" } }).context)).toBe("[no output]");
    expect(await bash({ command }, real({ env: {} }).context)).toBe("[no output]");
  });

  test("in the run's folder, with the run's environment and no other", async () => {
    const { context } = real({ env: { PATH: process.env.PATH ?? "", GREETING: "hi" } });
    expect(await bash({ command: "pwd; echo $GREETING; echo home: $HOME" }, context)).toBe(
      `${dir}\nhi\nhome:`,
    );
  });

  test("each call starts in a new shell", async () => {
    const { context } = real();
    await bash({ command: "mkdir sub; cd sub; export A=1" }, context);
    expect(await bash({ command: "pwd; echo A: $A" }, context)).toBe(`${dir}\nA:`);
  });

  test("one open file runs one command after another", async () => {
    const file = await start(real().context);
    expect(text(await exchange(file, "echo one"))).toBe("one");
    expect(text(await exchange(file, "echo two"))).toBe("two");
    await file.close();
  });
});

describe("a write is the tool's input or the command", () => {
  const GRID: [string, string, string][] = [
    ["the tool's input", '{"op":"bash","command":"echo a","description":"say a"}', "a"],
    ["an input without op", '{"command":"echo a"}', "a"],
    ["a group of the shell", "{ echo a; echo b; }", "a\nb"],
    ["a test of the shell", "[ -d . ] && echo yes", "yes"],
    ["a word that is JSON", "true", "[no output]"],
    ["lines", "echo a\necho b\n", "a\nb"],
  ];
  for (const [title, written, answer] of GRID) {
    test(title, async () => {
      expect(await bash(written)).toBe(answer);
    });
  }

  test("bytes", async () => {
    const file = await start(real().context);
    expect(text(await exchange(file, new TextEncoder().encode("echo grüße")))).toBe("grüße");
    await file.close();
  });

  const WRONG: [string, Data, Code][] = [
    ["an object without a command", '{"op":"bash"}', "INVALID"],
    ["a command that is no text", '{"command":1}', "INVALID"],
    ["a time that is no number", '{"command":"true","timeout_ms":"1s"}', "INVALID"],
    ["a time below 1", '{"command":"true","timeout_ms":0}', "INVALID"],
    ["nothing", "", "INVALID"],
    ["a command with a NUL byte", "echo \0", "INVALID"],
  ];
  for (const [title, written, code] of WRONG) {
    test(`${title} is ${code}`, async () => {
      const file = await start(real().context);
      expect((await failure(() => exchange(file, written))).code).toBe(code);
      await file.close();
    });
  }

  test("a read before a write is INVALID", async () => {
    const file = await start(real().context);
    expect((await failure(() => file.read(10, never))).code).toBe("INVALID");
    await file.close();
  });

  test("a second command while one runs is INVALID", async () => {
    const file = await start(real().context);
    await file.write("sleep 60", never);
    expect((await failure(() => file.write("true", never))).code).toBe("INVALID");
    await file.close();
  });

  test("without the service to start programs it is UNAVAILABLE", async () => {
    const error = await failure(() => bash({ command: "true" }, real({ exec: undefined }).context));
    expect(error.code).toBe("UNAVAILABLE");
  });
});

describe("a long output", () => {
  const NUMBERS = (count: number): string =>
    Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join("");
  const print = (count: number): string => `seq -f 'line %g' ${count}`;

  test("is shown whole up to 30,000 characters", async () => {
    expect(await bash({ command: print(2_000) })).toBe(NUMBERS(2_000).trimEnd());
  });

  for (const [title, count] of [
    ["in memory", 5_000],
    ["in a file", 100_000],
  ] as const) {
    test(`is shown by its beginning and its end, and saved whole, when it fits ${title}`, async () => {
      const answer = await bash({ command: `${print(count)}; exit 2` });
      expect(answer.length).toBeLessThan(31_000);
      expect(answer).toStartWith("line 1\nline 2\n");
      expect(answer).toEndWith(`line ${count}\n[exit code 2]`);
      const file = /The whole output is in (\S+) …\]/.exec(answer)?.[1] ?? "";
      expect(readFileSync(file, "utf8")).toBe(NUMBERS(count));
    });
  }

  test("names how much is lost when it exceeds the file's limit", async () => {
    const { context } = real({ children: { diskBytes: 200_000 } });
    const answer = await bash({ command: `${print(100_000)}` }, context);
    expect(answer).toStartWith("line 1\n");
    expect(answer).toContain("line 100000");
    expect(answer).toMatch(/\d+ bytes are lost/);
  });

  test("of 100 MB is not held in memory", async () => {
    const { answer, peakBytes } = await measured(join(import.meta.dir, "programs/long-output.ts"));
    expect(answer.length).toBeLessThan(31_000);
    expect(answer).toContain("of 104857600 characters");
    expect(peakBytes).toBeLessThan(100 * 1024 * 1024);
  });

  test("that can't be saved is still shown", async () => {
    const { context, notes } = real({
      spill: () => Promise.reject(new SyscallError("EXHAUSTED", "The disk is full.")),
    });
    const answer = await bash({ command: print(5_000) }, context);
    expect(answer).toContain("The rest was not saved.");
    expect(notes.log.join()).toContain("The disk is full.");
  });
});

describe("characters that come in pieces", () => {
  /** A program that prints these pieces, and a context whose exec starts it. */
  function printing(pieces: [1 | 2, number[]][], exit: Partial<ExitInfo> = {}): OpenContext {
    const left = [...pieces];
    const child: Child = {
      pid: 0,
      reused: false,
      write: async () => {},
      end: async () => {},
      read: async () => {
        const piece = left.shift();
        return piece ? { fd: piece[0], data: new Uint8Array(piece[1]) } : null;
      },
      exited: async () => ({
        code: 0,
        signal: null,
        timedOut: false,
        outputBytes: 0,
        droppedBytes: 0,
        ...exit,
      }),
      kill: async () => {},
    };
    return real({ exec: async () => child }).context;
  }
  const rocket = [0xf0, 0x9f, 0x9a, 0x80];

  test("are whole, also when the other stream's output comes between", async () => {
    const pieces: [1 | 2, number[]][] = [
      [1, rocket.slice(0, 1)],
      [2, rocket.slice(0, 2)],
      [1, rocket.slice(1, 3)],
      [2, rocket.slice(2)],
      [1, rocket.slice(3)],
    ];
    expect(await bash({ command: "x" }, printing(pieces))).toBe("🚀🚀");
  });

  test("are shown as replacement characters when their rest never comes", async () => {
    expect(await bash({ command: "x" }, printing([[1, rocket.slice(0, 3)]]))).toBe("\uFFFD");
  });

  test("are not split where the output is truncated", async () => {
    const pieces = Array.from({ length: 20_000 }, (): [1, number[]] => [1, rocket]);
    for (const before of [[], [0x61]]) {
      const answer = await bash({ command: "x" }, printing([[1, before], ...pieces]));
      expect(answer).not.toMatch(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/);
    }
  });

  test("an unknown exit code is reported as unknown", async () => {
    expect(await bash({ command: "x" }, printing([], { code: null }))).toBe("[the exit code is unknown]");
  });
});

describe("a command that takes too long", () => {
  test("is ended at its timeout, and its output is returned", async () => {
    const made = real();
    const command = "echo $$ > pid; echo begun; sleep 60";
    let timeout_ms = 300;
    let answer = await bash({ command, timeout_ms }, made.context);
    // On a busy machine it may not have begun by then.
    while (!answer.startsWith("begun") && timeout_ms < 10_000) {
      timeout_ms *= 2;
      answer = await bash({ command, timeout_ms }, made.context);
    }
    expect(answer).toStartWith(`begun\n[timed out after ${timeout_ms} ms`);
    await made.endCall();
    expect(isAlive(Number(readFileSync(join(dir, "pid"), "utf8")))).toBe(false);
    expect(made.children.list()).toEqual([]);
  });

  test("is ended before the call's own deadline, for any timeout", async () => {
    const { context } = real({ call: { id: "c", tool: "Bash", deadlineMs: 400, key: "r:1:c" } });
    expect(await bash({ command: "sleep 60", timeout_ms: 3_600_000 }, context)).toContain(
      "timed out after 360 ms",
    );
    expect(await bash({ command: "sleep 60" }, context)).toContain("timed out after 360 ms");
  });

  test("returns its output also when the kernel's deadline comes first", async () => {
    const made = real();
    const printed = Promise.withResolvers<void>();
    const file = await start({ ...made.context, exec: watched(made.context, () => printed.resolve()) });
    const deadline = new AbortController();
    await file.write("echo begun; sleep 60", deadline.signal);
    const reading = file.read(1000, deadline.signal);
    await printed.promise;
    deadline.abort(new SyscallError("TIMEOUT", "Bash did not answer in time."));
    expect(text(await reading)).toMatch(/^begun\n\[timed out/);
    await file.close();
    expect(made.children.list()).toEqual([]);
  });

  /** The context's exec, which reports when the driver asks for a second piece of output: it has the first. */
  function watched({ exec }: OpenContext, onSecondRead: () => void): OpenContext["exec"] {
    return async (request) => {
      if (!exec) throw new Error("There is an exec.");
      const child = await exec(request);
      let reads = 0;
      const read = (): ReturnType<Child["read"]> => {
        if (++reads === 2) onSecondRead();
        return child.read();
      };
      return { ...child, read };
    };
  }
});

describe("nothing is left running", () => {
  const STUBBORN = "trap '' TERM; while :; do sleep 1; done";
  const COMMANDS: Record<string, string> = {
    "a sleep": "sleep 60",
    "a sleep in a pipe": "sleep 60 | cat",
    "one that does not heed TERM": STUBBORN,
    "one with a background process": "sleep 60 & wait",
    "one that left its session": "setsid sleep 60",
    "one that left its session and closed everything":
      "setsid sleep 60 </dev/null >/dev/null 2>&1 & sleep 60",
  };

  for (const [title, command] of Object.entries(COMMANDS)) {
    test(`of ${title}, when it is cancelled`, async () => {
      const made = real({ children: { graceMs: 200 } });
      const controller = new AbortController();
      const marker = `rnix-test-${crypto.randomUUID()}`;
      const failing = failure(() =>
        bash(
          { command: `export MARKER=${marker}; touch begun; ${command}` },
          made.context,
          controller.signal,
        ),
      );
      await until(() => existsSync(join(dir, "begun")));
      controller.abort(new SyscallError("CANCELLED", "The run was killed."));
      expect((await failing).code).toBe("CANCELLED");
      expect(made.children.list()).toEqual([]);
      expect(carriers(marker)).toEqual([]);
    });
  }

  test("of a command's background programs, and the call does not wait for them", async () => {
    const made = real({ children: { graceMs: 200 } });
    const marker = `rnix-test-${crypto.randomUUID()}`;
    const command = `export MARKER=${marker}; sleep 60 & (setsid sleep 60 &) ; echo $! > pid; echo started`;
    expect(await bash({ command }, made.context)).toBe("started");
    await made.endCall();
    expect(carriers(marker)).toEqual([]);
    expect(isAlive(Number(readFileSync(join(dir, "pid"), "utf8")))).toBe(false);
  });

  test("of a command that is closed and never read", async () => {
    const made = real({ children: { graceMs: 200 } });
    const file = await start(made.context);
    await file.write("yes", never);
    await file.close();
    expect(made.children.list()).toEqual([]);
  });

  test("of a command whose start was abandoned", async () => {
    const made = real({ children: { graceMs: 200 } });
    const { exec } = made.context;
    const starting = Promise.withResolvers<void>();
    const context: OpenContext = {
      ...made.context,
      exec: async (request) => {
        await starting.promise;
        if (!exec) throw new Error("There is an exec.");
        return exec(request);
      },
    };
    const file = await start(context);
    const writing = file.write("sleep 60", never);
    await file.close();
    starting.resolve();
    await writing;
    expect(made.children.list()).toEqual([]);
  });

  test("and no command starts with an aborted signal", async () => {
    const error = await failure(() =>
      bash(
        { command: "touch begun" },
        real().context,
        AbortSignal.abort(new SyscallError("CANCELLED", "The run was stopped.")),
      ),
    );
    expect(error.code).toBe("CANCELLED");
    expect(readdirSync(dir)).toEqual([]);
  });

  /** Processes with this word in their environment. */
  function carriers(marker: string): string[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, "utf8").includes(marker);
        } catch {
          return false;
        }
      });
  }
});
