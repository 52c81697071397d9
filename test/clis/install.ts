import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The version that the driver is tested with, named only here. */
const CLAUDE_CODE = "2.1.329";

/** Ends at a registry that does not answer. */
const INSTALL_MS = 5 * 60_000;

/** The program `claude` of that version, from the cache or the registry. It is some 360 MB. */
export async function installClaude(): Promise<string> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "rnix-test-clis");
  const folder = join(cache, `claude-code-${CLAUDE_CODE}`);
  const program = join(folder, "node_modules/.bin/claude");
  if (!existsSync(program)) await install(cache, folder, `@anthropic-ai/claude-code@${CLAUDE_CODE}`);
  const { stdout, success } = Bun.spawnSync([program, "--version"], { stderr: "inherit" });
  if (!success || !stdout.toString().startsWith(CLAUDE_CODE)) {
    throw new Error(`${program} says ${stdout}, not ${CLAUDE_CODE}. Remove ${folder} and try again.`);
  }
  return program;
}

/** Whole or not at all: a folder of its own that gets its name when it is complete. */
async function install(cache: string, folder: string, what: string): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const half = mkdtempSync(join(cache, "half-"));
  try {
    process.stderr.write(`Installing ${what} into ${folder}\n`);
    const npm = Bun.spawn(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", half, what], {
      cwd: half,
      stdio: ["ignore", "inherit", "inherit"],
      timeout: INSTALL_MS,
    });
    if ((await npm.exited) !== 0) throw new Error(`npm install ${what} ended with ${npm.exitCode}`);
    renameSync(half, folder);
  } finally {
    rmSync(half, { recursive: true, force: true });
  }
}
