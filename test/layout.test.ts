import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const ROOT = join(import.meta.dir, "..");

/** The arrows of design §1. A room may import itself and whatever its arrows lead to, near or far. */
const ARROWS: Record<string, readonly string[]> = {
  cli: ["client", "version"],
  client: ["protocol", "server", "version"],
  protocol: ["options"],
  server: ["cron", "protocol", "plugin/host", "config", "kernel", "telemetry", "version"],
  "plugin/host": ["config", "plugin", "vfs", "version"],
  config: ["options", "vfs", "workflows"],
  cron: ["options", "store"],
  kernel: ["daemons", "sandbox", "shell", "workflows", "vfs", "store", "os", "options", "proxy"],
  daemons: ["lib", "plugin"],
  shell: ["workflows"],
  workflows: ["options"],
  options: ["lib", "plugin"],
  vfs: ["lib", "plugin"],
  store: ["lib", "plugin", "run"],
  run: ["options"],
  sandbox: ["os"],
  os: ["lib", "plugin"],
  proxy: ["lib", "plugin"],
  lib: ["plugin"],
  plugin: [],
  version: [],
  dashboard: ["lib", "run"],
  telemetry: ["run"],
};

/** Where a type may come from beside that: a type is gone when the program runs. */
const TYPES_FROM: Record<string, readonly string[]> = {
  protocol: ["kernel", "plugin/host", "run", "store"],
  dashboard: ["protocol", "server"],
};

function reachable(room: string, seen = new Set<string>()): Set<string> {
  if (seen.has(room)) return seen;
  seen.add(room);
  for (const next of ARROWS[room] ?? []) reachable(next, seen);
  return seen;
}

interface Import {
  file: string;
  target: string;
  typeOnly: boolean;
  /** Only when it is called for. */
  lazy: boolean;
}

function sources(folder: string): string[] {
  return [...new Bun.Glob("**/*.ts").scanSync(join(ROOT, folder))].map((file) => `${folder}/${file}`).sort();
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found: Import[] = [];
  const pattern =
    /^\s*(?:import|export)\s+(type\s)?[^;"'`]*?from\s+["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)|^\s*import\s+["']([^"']+)["']/gm;
  for (const match of text.matchAll(pattern)) {
    const target = match[2] ?? match[3] ?? match[4] ?? "";
    found.push({ file, target, typeOnly: match[1] !== undefined, lazy: match[3] !== undefined });
  }
  return found;
}

/** The files over which one imports itself, types included; "" when it does not. */
function wayBack(file: string, next: ReadonlyMap<string, readonly string[]>): string {
  const from = new Map<string, string>();
  const open = [file];
  for (let at = open.shift(); at !== undefined; at = open.shift()) {
    for (const target of next.get(at) ?? []) {
      if (from.has(target)) continue;
      from.set(target, at);
      open.push(target);
    }
  }
  const way: string[] = [];
  for (let at = from.get(file); at !== undefined && at !== file; at = from.get(at)) way.unshift(at);
  return from.has(file) ? [file, ...way, file].join(" -> ") : "";
}

/** The room of a file below src: its first folder, `plugin/host` apart; a file of src itself by its name. */
function roomOf(path: string): string {
  const parts = path.split("/").slice(1);
  if (parts[0] === "plugin" && parts[1] === "host") return "plugin/host";
  return (parts[0] ?? "").replace(/\.ts$/, "");
}

describe("imports point one way", () => {
  for (const file of sources("src").filter((path) => path !== "src/main.ts")) {
    const room = roomOf(file);
    const own = importsOf(file).filter(({ target }) => target.startsWith("."));
    test(`${file} imports only what ${room} may know`, () => {
      const wrong = own.flatMap(({ target, typeOnly }) => {
        const path = relative(ROOT, join(ROOT, dirname(file), target));
        const to = roomOf(path);
        const allowed = reachable(room).has(to) || (typeOnly && (TYPES_FROM[room] ?? []).includes(to));
        const baked = room === "version" && path === "package.json";
        return (path.startsWith("src/") && allowed) || baked ? [] : [path];
      });
      expect(wrong).toEqual([]);
    });
  }

  test("and no file leads back to itself", () => {
    // What a process says of itself.
    const known = new Set(["src/kernel/process/process-info.ts -> src/kernel/process/process.ts"]);
    const files = [...sources("src"), ...sources("plugins")];
    const next = new Map(
      files.map((file) => {
        const own = importsOf(file).filter(({ target, lazy }) => target.startsWith(".") && !lazy);
        const targets = own.map(({ target }) => relative(ROOT, join(ROOT, dirname(file), target)));
        return [file, targets.filter((target) => !known.has(`${file} -> ${target}`))];
      }),
    );
    expect(files.map((file) => wayBack(file, next)).filter((ring) => ring !== "")).toEqual([]);
  });

  /** What each file of src loads at once: paths of files, names of libraries. */
  const next = new Map(
    sources("src").map((file) => {
      const eager = importsOf(file).filter(({ lazy, typeOnly }) => !lazy && !typeOnly);
      const found = eager.map(({ target }) =>
        target.startsWith(".") ? relative(ROOT, join(ROOT, dirname(file), target)) : target,
      );
      return [file, found];
    }),
  );
  const loaded = (file: string, seen = new Set<string>()): Set<string> => {
    if (!seen.has(file)) {
      seen.add(file);
      for (const target of next.get(file) ?? []) loaded(target, seen);
    }
    return seen;
  };

  test("schedules, base revisions and telemetry are loaded at their first use", () => {
    const spawn = ["src/main.ts", "src/server/main.ts", "src/server/methods/spawn.ts"];
    const wrong = spawn
      .flatMap((entry) => [...loaded(entry)])
      .filter((file) =>
        /^src\/(?:cron\/(?!cron-folder)|telemetry\/|server\/(?:schedule\/|plan\/base-(?!folder)))/.test(file),
      );
    expect(wrong).toEqual([]);
  });

  test("what draws at a terminal is loaded only there, never by a command in a pipe", () => {
    // These need a terminal, and refuse to run without one.
    const atTerminals = new Set(["src/cli/commands/chat.ts"]);
    const commands = sources("src/cli/commands").filter((file) => !atTerminals.has(file));
    const drawing = ["screen", "keyboard", "markdown", "live-view", "input-line"];
    const wrong = ["src/main.ts", ...commands].filter((file) =>
      drawing.some((name) => loaded(file).has(`src/cli/terminal/${name}.ts`)),
    );
    expect(wrong).toEqual([]);
  });

  // Each library of the runtime beyond these costs 1 to 3 ms; each hundred kilobytes about 1 ms.
  const CHEAP = ["node:fs", "node:fs/promises", "node:os", "node:path"];
  const SPAWN = ["src/main.ts", "src/cli/commands/spawn.ts", "src/client/session.ts", "src/client/daemon.ts"];
  const LOADS = [
    { what: "`rnix spawn -q`", entries: SPAWN, libraries: CHEAP, bytes: 183_000 },
    {
      what: "`rnix spawn` in a pipe",
      entries: [...SPAWN, "src/cli/output/plain-view.ts"],
      libraries: CHEAP,
      bytes: 220_000,
    },
    {
      what: "`rnix spawn --no-daemon`",
      entries: ["src/server/embedded-server.ts", "src/server/methods/spawn.ts"],
      libraries: [...CHEAP, "bun:ffi", "node:buffer", "node:events", "zod"],
      bytes: 1_631_000,
    },
  ];

  for (const { what, entries, libraries, bytes } of LOADS) {
    test(`${what} loads little code and only cheap libraries`, () => {
      const all = new Set(entries.flatMap((entry) => [...loaded(entry)]));
      const own = [...all].filter((one) => one.startsWith("src/"));
      const known = new Set([...own, ...libraries, "package.json"]);
      expect([...all].filter((one) => !known.has(one))).toEqual([]);
      const code = own.map((file) => withoutComments(readFileSync(join(ROOT, file), "utf8")).length);
      expect(code.reduce((sum, length) => sum + length, 0)).toBeLessThanOrEqual(bytes);
    });
  }

  test("a plugin imports only rnix/plugin, libraries and its own files", () => {
    const wrong = sources("plugins")
      .flatMap(importsOf)
      .filter(({ file, target }) => {
        if (!target.startsWith(".")) return false;
        const path = relative(ROOT, join(ROOT, dirname(file), target));
        return !path.startsWith("plugins/");
      });
    expect(wrong).toEqual([]);
  });

  test("the contract imports only its own files", () => {
    const contract = [...new Bun.Glob("*.ts").scanSync(join(ROOT, "src/plugin"))];
    const wrong = contract
      .flatMap((file) => importsOf(`src/plugin/${file}`))
      .filter(({ target }) => !contract.includes(target.replace("./", "")));
    expect(wrong).toEqual([]);
  });
});

/** Rooms with rooms of their own. */
const HOUSES = ["config", "kernel", "server", "store"];

/** The innermost room of a file; each file at the root of a house is a room of its own. */
function innerRoomOf(path: string): string {
  const [, house = "", inner = ""] = path.split("/");
  return HOUSES.includes(house) ? `${house}/${inner}` : roomOf(path);
}

describe("the rooms below cli, config, kernel, server and store", () => {
  /** What stands at the root of each: its table, and what assembles it. */
  const AT_THE_ROOT: Record<string, readonly string[]> = {
    cli: ["cli", "command", "commands", "exit", "flags", "io", "run-flags"],
    config: ["config-sources", "init", "trust-items"],
    kernel: [
      ...["capability-manager", "concurrency-manager", "context-manager", "debugger", "file-system"],
      ...["init-manager", "ipc-manager", "kernel", "kernel-ports", "lifecycle-manager", "mount-manager"],
      ...["proc-group-manager", "process-manager", "signal-manager", "supervisor-manager", "types"],
    ],
    server: ["boot", "embedded-server", "main", "offline-commands", "server", "services"],
    store: ["daily-spending", "pid-allocator", "plugin-store", "spending-since"],
  };

  for (const [house, files] of Object.entries(AT_THE_ROOT)) {
    test(`nothing is flat in ${house} but its table`, () => {
      const flat = [...new Bun.Glob("*.ts").scanSync(join(ROOT, "src", house))];
      expect(flat.map((file) => file.replace(/\.ts$/, "")).toSorted()).toEqual(files.toSorted());
    });
  }

  test("no two of them import each other", () => {
    // Each tier of the kernel makes its parts, and the parts of the next tiers take its type.
    const tiers = "kernel/tiers";
    const root = "config/config-sources.ts";
    const known = [
      `config/agents <-> ${root}`,
      ...["project", "skills", "trust"].map((room) => `${root} <-> config/${room}`),
    ];
    const arrows = new Set<string>();
    for (const { file, target } of sources("src").flatMap(importsOf)) {
      if (!target.startsWith(".")) continue;
      const path = relative(ROOT, join(ROOT, dirname(file), target));
      const [from, to] = [innerRoomOf(file), innerRoomOf(path)];
      if (from !== to && from !== tiers && to !== tiers) arrows.add(`${from} ${to}`);
    }
    const mutual = [...arrows].flatMap((arrow) => {
      const [from = "", to = ""] = arrow.split(" ");
      return from < to && arrows.has(`${to} ${from}`) ? [`${from} <-> ${to}`] : [];
    });
    expect(mutual).toEqual(known);
  });
});

test("every file opens with a comment that says what it is, then an empty line", () => {
  const wrong = [...sources("src"), ...sources("plugins")].filter(
    (file) => !/^\/\*[\s\S]*?\*\/\n\n/.test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(wrong).toEqual([]);
});

describe("what only one place may do", () => {
  const spawning = /\bBun\.spawn(?:Sync)?\b|node:child_process|\bchild_process\b|\bBun\.\$/;

  test("programs are started by src/os alone, the server itself by the client", () => {
    const allowed = new Set(["src/client/start-daemon.ts"]);
    const wrong = [...sources("src"), ...sources("plugins")]
      .filter((file) => !file.startsWith("src/os/") && !allowed.has(file))
      .filter((file) => spawning.test(withoutComments(readFileSync(join(ROOT, file), "utf8"))));
    expect(wrong).toEqual([]);
  });

  test("files that a user or a project names are read by src/lib/regular-file.ts", () => {
    // Read our own files, or the system's: the build, the demo, the contract's text, /proc.
    const own = [
      "src/plugin/host/stock-files.ts",
      "src/cli/commands/demo.ts",
      "src/server/dashboard/build-page.ts",
      "src/cli/files/contract-source.ts",
      "src/cli/system/system.ts",
      "src/cli/system/system-terminal.ts",
      "src/cli/system/system.ts",
    ];
    const wrong = sources("src")
      .filter((file) => !/^src\/(?:os|store|lib)\//.test(file) && !own.includes(file))
      .filter((file) =>
        /\breadFile(?:Sync)?\(|\bBun\.file\(|\bcreateReadStream\(/.test(
          withoutComments(readFileSync(join(ROOT, file), "utf8")),
        ),
      );
    expect(wrong).toEqual([]);
  });

  test("git is started by src/kernel/files/git-repository.ts alone", () => {
    const wrong = [...sources("src"), ...sources("plugins")]
      .filter((file) => file !== "src/kernel/files/git-repository.ts")
      .filter((file) =>
        /argv[^;]*["'`]git["'`]/.test(withoutComments(readFileSync(join(ROOT, file), "utf8"))),
      );
    expect(wrong).toEqual([]);
  });

  test("a plugin reads neither the process's folder nor its environment", () => {
    const wrong = sources("plugins").filter((file) =>
      /\bprocess\.(cwd|env|chdir|exit)\b|\bBun\.env\b/.test(
        withoutComments(readFileSync(join(ROOT, file), "utf8")),
      ),
    );
    expect(wrong).toEqual([]);
  });

  test("the kernel has no clock and no chance of its own", () => {
    const wrong = sources("src/kernel").filter((file) =>
      /\bDate\.now\(|\bperformance\.now\(|\bMath\.random\(|\bsetTimeout\(|\bsetInterval\(/.test(
        withoutComments(readFileSync(join(ROOT, file), "utf8")),
      ),
    );
    expect(wrong).toEqual([]);
  });
});

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}
