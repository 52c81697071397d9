/** Which language server serves a file: a table, changed by the settings. */

import { existsSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { z } from "zod";

export interface ServerKind {
  name: string;
  /** Program and arguments; it speaks the protocol on stdin and stdout. */
  command: readonly string[];
  /** The language id of each extension. */
  languages: Readonly<Record<string, string>>;
  /** Files that mark a workspace. The outermost folder of the project with one is the root; without, the project's folder. */
  roots: readonly string[];
  /** Its initializationOptions. */
  options?: Readonly<Record<string, unknown>>;
  /** How to install it. */
  install: string;
}

const KNOWN: readonly ServerKind[] = [
  {
    name: "typescript",
    command: ["typescript-language-server", "--stdio"],
    languages: {
      ".ts": "typescript",
      ".mts": "typescript",
      ".cts": "typescript",
      ".tsx": "typescriptreact",
      ".js": "javascript",
      ".mjs": "javascript",
      ".cjs": "javascript",
      ".jsx": "javascriptreact",
    },
    roots: [],
    // The syntax server answers with less while the project is read.
    options: { disableAutomaticTypingAcquisition: true, tsserver: { useSyntaxServer: "never" } },
    install: "npm install -g typescript-language-server typescript",
  },
  {
    name: "gopls",
    command: ["gopls"],
    languages: { ".go": "go" },
    roots: ["go.work", "go.mod"],
    install: "go install golang.org/x/tools/gopls@latest",
  },
  {
    name: "pyright",
    command: ["pyright-langserver", "--stdio"],
    languages: { ".py": "python", ".pyi": "python" },
    roots: ["pyrightconfig.json", "pyproject.toml", "setup.py"],
    install: "npm install -g pyright",
  },
  {
    name: "rust-analyzer",
    command: ["rust-analyzer"],
    languages: { ".rs": "rust" },
    roots: ["Cargo.toml"],
    install: "rustup component add rust-analyzer",
  },
  {
    name: "clangd",
    command: ["clangd"],
    languages: {
      ".c": "c",
      ".h": "c",
      ".cc": "cpp",
      ".cpp": "cpp",
      ".cxx": "cpp",
      ".hh": "cpp",
      ".hpp": "cpp",
    },
    roots: ["compile_commands.json", "compile_flags.txt"],
    install: "apt install clangd",
  },
  {
    name: "zls",
    command: ["zls"],
    languages: { ".zig": "zig" },
    roots: ["build.zig"],
    install: "see https://zigtools.org/zls",
  },
  {
    name: "ruby-lsp",
    command: ["ruby-lsp"],
    languages: { ".rb": "ruby" },
    roots: ["Gemfile"],
    install: "gem install ruby-lsp",
  },
  {
    name: "lua",
    command: ["lua-language-server"],
    languages: { ".lua": "lua" },
    roots: [".luarc.json"],
    install: "see https://luals.github.io",
  },
  {
    name: "bash",
    command: ["bash-language-server", "start"],
    languages: { ".sh": "shellscript", ".bash": "shellscript" },
    roots: [],
    install: "npm install -g bash-language-server",
  },
];

/** The kernel has checked it by the schema in index.ts. */
const Settings = z.object({
  servers: z
    .record(
      z.string(),
      z.union([
        z.literal(false),
        z.object({
          command: z.array(z.string()).optional(),
          languages: z.record(z.string(), z.string()).optional(),
          roots: z.array(z.string()).optional(),
          options: z.record(z.string(), z.unknown()).optional(),
        }),
      ]),
    )
    .default({}),
});
type Servers = z.infer<typeof Settings>["servers"];

/** The setting `servers`. */
export function serversOf({ config }: OpenContext): Servers {
  return Settings.parse(config ?? {}).servers;
}

/** The server of a file. Fails with UNAVAILABLE where no server is known for its extension. */
export function serverOf(file: string, servers: Servers): ServerKind {
  const extension = extname(file);
  const own = Object.entries(servers).flatMap(([name, given]) => {
    if (given === false) return [];
    const known = KNOWN.find((kind) => kind.name === name);
    const command = given.command ?? known?.command;
    if (command === undefined)
      throw new SyscallError("INVALID", `plugins.lsp.servers.${name}: a new server needs its command.`);
    const {
      languages = known?.languages ?? {},
      roots = known?.roots ?? [],
      options = known?.options,
    } = given;
    return [{ name, command, languages, roots, options, install: known?.install ?? "see its documentation" }];
  });
  const others = KNOWN.filter(({ name }) => servers[name] === undefined);
  const found = [...own, ...others].find(({ languages }) => languages[extension] !== undefined);
  if (found !== undefined) return found;
  const known = others.flatMap(({ languages }) => Object.keys(languages)).join(" ");
  throw new SyscallError(
    "UNAVAILABLE",
    `No language server is known for ${extension || file}. Known: ${known}. The user can add one: plugins: {lsp: {servers: …}} in config.yaml.`,
  );
}

/** Whether a server is known for the file. */
export function isServed(file: string, servers: Servers): boolean {
  try {
    return serverOf(file, servers) !== undefined;
  } catch (thrown) {
    if (thrown instanceof SyscallError && thrown.code === "UNAVAILABLE") return false;
    throw thrown;
  }
}

/** The workspace of a file: see ServerKind.roots. */
export function rootOf(file: string, { roots }: ServerKind, project: string): string {
  let root = project;
  for (
    let folder = dirname(file);
    folder.startsWith(`${project}/`) || folder === project;
    folder = dirname(folder)
  ) {
    if (roots.some((mark) => existsSync(join(folder, mark)))) root = folder;
    if (folder === project) break;
  }
  return root;
}
