import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The version that the driver is tested with, named only here. */
const CLAUDE_CODE = "2.1.329";

/** Ends at a registry that does not answer. */
const INSTALL_MS = 5 * 60_000;

/** The official MCP servers that the client is tested with. They are published under one version. */
const MCP_SERVERS = "2026.8.31";
const MCP_NAMES = ["everything", "filesystem", "memory"];
const MCP_INSPECTOR = "2.12.0";

/** Brings all of it, and gives the variables that name the places. */
export async function install(): Promise<Record<string, string>> {
  const [claude, servers, inspector, projects] = await Promise.all([
    installClaude(),
    installMcpServers(),
    installInspector(),
    installProjects(),
  ]);
  return {
    RNIX_TEST_CLAUDE: claude,
    RNIX_TEST_MCP_SERVERS: servers,
    RNIX_TEST_MCP_INSPECTOR: inspector,
    RNIX_TEST_PROJECTS: projects,
  };
}

/** The program `claude` of that version, from the cache or the registry. It is some 360 MB. */
async function installClaude(): Promise<string> {
  const folder = await installed(`claude-code-${CLAUDE_CODE}`, [`@anthropic-ai/claude-code@${CLAUDE_CODE}`]);
  const program = join(folder, "node_modules/.bin/claude");
  const { stdout, success } = Bun.spawnSync([program, "--version"], { stderr: "inherit" });
  if (!success || !stdout.toString().startsWith(CLAUDE_CODE)) {
    throw new Error(`${program} says ${stdout}, not ${CLAUDE_CODE}. Remove ${folder} and try again.`);
  }
  return program;
}

/** The folder with the programs `mcp-server-…`. */
async function installMcpServers(): Promise<string> {
  const packages = MCP_NAMES.map((name) => `@modelcontextprotocol/server-${name}@${MCP_SERVERS}`);
  return join(await installed(`mcp-servers-${MCP_SERVERS}`, packages), "node_modules/.bin");
}

/** The official MCP client for the command line, which tries `rnix mcp serve`. */
async function installInspector(): Promise<string> {
  const packages = [`@modelcontextprotocol/inspector@${MCP_INSPECTOR}`];
  return join(await installed(`mcp-inspector-${MCP_INSPECTOR}`, packages), "node_modules/.bin/mcp-inspector");
}

/** Small packages that bring their test suites, and what runs these. */
const PROJECTS = ["minimist@1.2.8", "shell-quote@1.8.3", "concat-map@0.0.2", "tape@5.9.0"];

/** The folder `node_modules` with these packages. */
async function installProjects(): Promise<string> {
  return join(await installed(`projects-${PROJECTS.join("-")}`, PROJECTS), "node_modules");
}

/** A folder of the cache that has these packages. */
async function installed(name: string, packages: readonly string[]): Promise<string> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "rnix-test-clis");
  const folder = join(cache, name);
  if (!existsSync(folder)) await bring(cache, folder, packages);
  return folder;
}

/** Whole or not at all: a folder of its own that gets its name when it is complete. */
async function bring(cache: string, folder: string, what: readonly string[]): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const half = mkdtempSync(join(cache, "half-"));
  try {
    process.stderr.write(`Installing ${what.join(" ")} into ${folder}\n`);
    const npm = Bun.spawn(
      ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", half, ...what],
      {
        cwd: half,
        stdio: ["ignore", "inherit", "inherit"],
        timeout: INSTALL_MS,
      },
    );
    if ((await npm.exited) !== 0) throw new Error(`npm install ${what.join(" ")} ended with ${npm.exitCode}`);
    renameSync(half, folder);
  } finally {
    rmSync(half, { recursive: true, force: true });
  }
}

// So .ci/run brings them while the other tests run.
if (import.meta.main) await install();
