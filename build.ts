import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { BunPlugin } from "bun";
import { stockAgentFront } from "./src/config/agents/agent-file.ts";
import { stockSkillFront } from "./src/config/skills/skill-file.ts";
import { PLUGIN_PROGRAM } from "./src/lib/program-channel.ts";
import { commands } from "./src/plugin/host/checkout.ts";
import { pluginEntries, stockFiles, textFiles } from "./src/plugin/host/stock-files.ts";
import { buildPage } from "./src/server/dashboard/build-page.ts";

/**
 * Builds the single executable (design §13): `bun build.ts [--target NAME] [--version TEXT] [--outfile PATH]`.
 * This machine's target and package.json's version by default. Prints the path of what was built.
 */

const ROOT = import.meta.dir;

/** What the executable is built from. */
const SOURCES = [
  "src",
  "plugins",
  "agents",
  "skills",
  "build.ts",
  "package.json",
  "bun.lock",
  "tsconfig.json",
];

/** What the executable can be built for. Any but this machine's own makes Bun fetch that platform's Bun. */
const TARGETS = {
  "linux-x64": "bun-linux-x64",
  "linux-x64-baseline": "bun-linux-x64-baseline",
  "linux-x64-musl": "bun-linux-x64-musl",
  "linux-arm64": "bun-linux-arm64",
  "linux-arm64-musl": "bun-linux-arm64-musl",
  "darwin-x64": "bun-darwin-x64",
  "darwin-arm64": "bun-darwin-arm64",
} as const satisfies Record<string, Bun.Build.CompileTarget>;
type Target = keyof typeof TARGETS;

/**
 * How many times more often than by default a function must run before it is compiled to machine code. A command runs
 * most of its code once or twice, and compiling that takes a quarter of its CPU. The daemon has a policy of its own
 * (src/client/start-daemon.ts).
 */
const JIT_POLICY = 20;

/** Optional native packages of our libraries: they can't be in the file and are done without. */
const NATIVES = ["@mongodb-js/zstd", "node-liblzma"];

/** The entries of Workers. In the executable each stands at its place below the common folder of the entries. */
const SEARCH_WORKER = "plugins/fs/search/worker.ts";
const INDEX_WORKER = "src/store/search/index-worker.ts";
const WORKFLOW_WORKER = "src/workflows/worker.ts";

interface BuildOptions {
  /** Absolute; src/main.ts by default. Tests build small programs around a part. */
  entry?: string;
  outfile: string;
  target?: Target;
  /** package.json's by default. */
  version?: string;
}

export async function build({
  entry = join(ROOT, "src/main.ts"),
  outfile,
  target,
  version,
}: BuildOptions): Promise<void> {
  mkdirSync(dirname(outfile), { recursive: true });
  const embed = embedding(await packedPageWorker(), await packedDashboard());
  // Bun also writes the source maps it has put inside; they, and a half-written file, stay in this folder.
  const work = mkdtempSync(join(dirname(outfile), ".rnix-build-"));
  try {
    const result = await Bun.build({
      entrypoints: [entry, ...[SEARCH_WORKER, INDEX_WORKER, WORKFLOW_WORKER].map((file) => join(ROOT, file))],
      root: ROOT,
      target: "bun",
      format: "esm",
      minify: true,
      bytecode: true,
      splitting: true,
      sourcemap: "inline",
      external: NATIVES,
      define: {
        RNIX_SEARCH_WORKER: JSON.stringify(inExecutable(SEARCH_WORKER)),
        RNIX_INDEX_WORKER: JSON.stringify(inExecutable(INDEX_WORKER)),
        RNIX_WORKFLOW_WORKER: JSON.stringify(inExecutable(WORKFLOW_WORKER)),
        RNIX_COMMIT: JSON.stringify(commit()),
        ...(version !== undefined && { RNIX_VERSION: JSON.stringify(version) }),
        // Bun also embeds it, by default with the value at build time.
        "process.env.NODE_ENV": '"production"',
      },
      plugins: [embed],
      throw: false,
      compile: {
        jitPolicy: JIT_POLICY,
        ...(target && { target: TARGETS[target] }),
        outfile: join(work, basename(outfile)),
        // Bun's defaults would run the current folder's bunfig preload and load its .env before our first line.
        autoloadDotenv: false,
        autoloadBunfig: false,
        autoloadTsconfig: false,
        // Without it plugins on disk can't reach their own node_modules.
        autoloadPackageJson: true,
      },
    });
    if (!result.success) throw new AggregateError(result.logs, result.logs.map(String).join("\n"));
    chmodSync(join(work, basename(outfile)), 0o755);
    // A rename, so that a daemon that runs the old file keeps it.
    renameSync(join(work, basename(outfile)), outfile);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Puts what src/plugin/host/checkout.ts reads from the folders into the executable, loaded when used. */
const embedding = (pageWorker: string, dashboard: string): BunPlugin => ({
  name: "embed",
  setup(builder) {
    builder.onLoad({ filter: /\/src\/plugin\/host\/checkout\.ts$/ }, () => ({
      loader: "ts",
      contents: embeddedModule(),
    }));
    builder.onLoad({ filter: /\/plugins\/web\/page-program\.ts$/ }, () => ({
      loader: "ts",
      contents: PAGE_PROGRAM,
    }));
    builder.onLoad({ filter: /\/src\/server\/dashboard\/page-files\.ts$/ }, () => ({
      loader: "ts",
      contents: PAGE_FILES,
    }));
    builder.onResolve({ filter: /^rnix-embedded:/ }, ({ path }) => ({ path, namespace: "rnix-embedded" }));
    builder.onLoad({ filter: /.*/, namespace: "rnix-embedded" }, async ({ path }) => {
      const name = path.slice("rnix-embedded:".length);
      if (name === "dashboard") return { loader: "json", contents: JSON.stringify(dashboard) };
      if (name === "page-worker") return { loader: "json", contents: JSON.stringify(pageWorker) };
      const data = name === "commands" ? await commands() : embeddedFiles(name);
      return { loader: "json", contents: JSON.stringify(data) };
    });
  },
});

const PAGE_PROGRAM = `
let url;
export async function pageProgram() {
  if (url === undefined) {
    const { default: packed } = await import("rnix-embedded:page-worker");
    const program = Bun.zstdDecompressSync(Buffer.from(packed, "base64"));
    url ??= URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  }
  return url;
}`;

const PAGE_FILES = `
let built;
export async function pageFiles() {
  built ??= import("rnix-embedded:dashboard").then(({ default: packed }) => {
    const files = JSON.parse(Bun.zstdDecompressSync(Buffer.from(packed, "base64")).toString());
    return new Map(files.map(({ path, type, text }) => [path, { type, bytes: new TextEncoder().encode(text) }]));
  });
  return built;
}`;

/** The files of the dashboard's page, compressed, in base64. */
async function packedDashboard(): Promise<string> {
  const files = JSON.stringify(await buildPage(join(ROOT, "src/dashboard")));
  return Bun.zstdCompressSync(Buffer.from(files), { level: 19 }).toString("base64");
}

/** The program that reads pages with all of its libraries, compressed, in base64. */
async function packedPageWorker(): Promise<string> {
  const entry = join(ROOT, "plugins/web/page-worker.ts");
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "bun", format: "esm", minify: true });
  const [program] = outputs;
  if (!program) throw new Error(`${entry} gave no program`);
  return Bun.zstdCompressSync(await program.arrayBuffer(), { level: 19 }).toString("base64");
}

/** Their YAML is read and checked here, so that no start of the binary does it again. */
function embeddedFiles(folder: string): object[] {
  const front = folder === "agents" ? stockAgentFront : stockSkillFront;
  return textFiles(join(ROOT, folder)).map((file) => ({ ...file, front: front(file) }));
}

function embeddedModule(): string {
  const folder = join(ROOT, "plugins");
  const plugins = pluginEntries(folder).map(({ name, entry }) => {
    const files = JSON.stringify(stockFiles(folder, entry));
    return `{ name: ${JSON.stringify(name)}, files: ${files}, import: () => import(${JSON.stringify(entry)}) }`;
  });
  return [
    `const stock = [${plugins.join(",\n")}];`,
    "export const compiled = true;",
    "export const plugins = () => stock;",
    'export const commands = () => import("rnix-embedded:commands").then((m) => m.default);',
    'export const agents = () => import("rnix-embedded:agents").then((m) => m.default);',
    'export const skills = () => import("rnix-embedded:skills").then((m) => m.default);',
    `export const pluginProgram = [process.execPath, ${JSON.stringify(PLUGIN_PROGRAM)}];`,
  ].join("\n");
}

/** What `new Worker` is given for an entry. */
function inExecutable(entry: string): string {
  return `file:///$bunfs/root/${entry.replace(/\.ts$/, ".js")}`;
}

/**
 * The commit; "unknown" outside a git checkout. When what is built differs from it, a digest of the difference follows:
 * a command must not take the daemon of an earlier build for its own.
 */
export function commit(checkout = ROOT): string {
  const git = (...args: string[]) => Bun.spawnSync(["git", "-C", checkout, ...args], { stderr: "ignore" });
  const head = git("rev-parse", "--short=12", "HEAD");
  if (!head.success) return "unknown";
  const commit = head.stdout.toString().trim();
  const changed = git("diff", "HEAD", "--binary", "--", ...SOURCES).stdout;
  const added = git("ls-files", "-z", "--others", "--exclude-standard", "--", ...SOURCES).stdout.toString();
  if (changed.length === 0 && added === "") return commit;
  const digest = new Bun.CryptoHasher("sha256").update(changed).update(added);
  for (const file of added.split("\0").filter(Boolean)) digest.update(readFileSync(join(checkout, file)));
  return `${commit}+${digest.digest("hex").slice(0, 8)}`;
}

function isTarget(name: string): name is Target {
  return Object.hasOwn(TARGETS, name);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { target: { type: "string" }, version: { type: "string" }, outfile: { type: "string" } },
  });
  const { target, version } = values;
  if (target !== undefined && !isTarget(target)) {
    process.stderr.write(`Unknown target "${target}". There are: ${Object.keys(TARGETS).join(", ")}.\n`);
    process.exit(64);
  }
  const outfile = resolve(values.outfile ?? join(ROOT, "rnix"));
  await build({ outfile, target, version });
  process.stdout.write(`${outfile}\n`);
}
