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
  install: string;
}

/** Name, command, language ids with their extensions, roots, how to install it. */
const TABLE = `
typescript|typescript-language-server --stdio|typescript .ts .mts .cts, typescriptreact .tsx, javascript .js .mjs .cjs, javascriptreact .jsx||npm install -g typescript-language-server typescript
gopls|gopls|go .go|go.work go.mod|go install golang.org/x/tools/gopls@latest
pyright|pyright-langserver --stdio|python .py .pyi|pyrightconfig.json pyproject.toml setup.py|npm install -g pyright
rust-analyzer|rust-analyzer|rust .rs|Cargo.toml|rustup component add rust-analyzer
clangd|clangd|c .c .h, cpp .cc .cpp .cxx .hh .hpp|compile_commands.json compile_flags.txt|apt install clangd
zls|zls|zig .zig|build.zig|see https://zigtools.org/zls
ruby-lsp|ruby-lsp|ruby .rb|Gemfile|gem install ruby-lsp
lua|lua-language-server|lua .lua|.luarc.json|see https://luals.github.io
bash|bash-language-server start|shellscript .sh .bash||npm install -g bash-language-server
`;

const KNOWN = TABLE.trim().split("\n").map(kindOf);

function kindOf(line: string): ServerKind {
  const [name = "", command = "", ids = "", roots = "", install = ""] = line.split("|");
  const languages = ids.split(", ").flatMap((one) => {
    const [id, ...extensions] = one.split(" ");
    return extensions.map((extension) => [extension, id]);
  });
  return {
    name,
    command: command.split(" "),
    languages: Object.fromEntries(languages),
    roots: roots.split(" ").filter(Boolean),
    // Its syntax server answers with less while the project is read.
    ...(name === "typescript" && {
      options: { disableAutomaticTypingAcquisition: true, tsserver: { useSyntaxServer: "never" } },
    }),
    install,
  };
}

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
  const message = `No language server is known for ${extension || file}. Known: ${known}. The user can add one: plugins: {lsp: {servers: …}} in config.yaml.`;
  throw new SyscallError("UNAVAILABLE", message);
}

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
  const isInside = (folder: string): boolean => folder === project || folder.startsWith(`${project}/`);
  for (let folder = dirname(file); isInside(folder); folder = dirname(folder)) {
    if (roots.some((mark) => existsSync(join(folder, mark)))) root = folder;
    if (folder === project) break;
  }
  return root;
}
