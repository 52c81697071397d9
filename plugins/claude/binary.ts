import { statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";

type Env = Readonly<Record<string, string | undefined>>;

/** The program that was found, and what it can do. */
export interface Binary {
  path: string;
  /** Long options that its help names. */
  options: ReadonlySet<string>;
}

/** For `--help`; the first start of a new version unpacks itself. */
const PROBE_MS = 30_000;
const MOST_PROBED = 8;

/** Without these its own tools, settings and servers can't be switched off. */
const CONFINING = ["--tools", "--strict-mcp-config", "--mcp-config", "--setting-sources", "--allowed-tools"];

/** Of the programs asked so far, by path and time of change. */
const probed = new Map<string, Promise<Binary>>();

/** On the PATH, then where its installers put it. Nothing is started. */
export function findBinary(env: Env): string | undefined {
  const onPath = Bun.which("claude", { PATH: env.PATH ?? "", cwd: "/" });
  if (onPath !== null && isAbsolute(onPath)) return onPath;
  return usualPlaces(env.HOME).find(isFile);
}

/** The program, asked once for its options. UNAVAILABLE when there is none, or it can't be confined. */
export async function binary(context: OpenContext, command: string | undefined): Promise<Binary> {
  const path = command ?? findBinary(context.env) ?? (await ofNvm(context.env.HOME));
  if (path === undefined || !isFile(path)) throw notFound(command);
  const key = `${path} ${statSync(path).mtimeMs}`;
  const known = probed.get(key);
  if (known) return known;
  const asked = probe(context, path);
  const [oldest] = probed.keys();
  if (oldest !== undefined && probed.size >= MOST_PROBED) probed.delete(oldest);
  probed.set(key, asked);
  // What it could not say now it may say the next time.
  asked.catch(() => probed.delete(key));
  return asked;
}

async function probe({ exec }: OpenContext, path: string): Promise<Binary> {
  if (!exec) throw new SyscallError("INTERNAL", "/dev/llm/claude was opened without the service `exec`");
  const child = await exec({ argv: [path, "--help"], timeoutMs: PROBE_MS, life: "process" });
  let help = "";
  const decoder = new TextDecoder();
  for (let piece = await child.read(); piece; piece = await child.read()) {
    help += decoder.decode(piece.data, { stream: true });
  }
  const { code, timedOut } = await child.exited();
  const options = new Set(help.match(/--[a-z][a-z-]+/g));
  if (code !== 0) {
    const how = timedOut ? `did not answer within ${PROBE_MS / 1000} s` : `ended with ${code}`;
    throw new SyscallError("UNAVAILABLE", `${path} --help ${how}: ${help.slice(-500).trim()}`, {
      retryable: false,
    });
  }
  const missing = CONFINING.filter((option) => !options.has(option));
  if (missing.length === 0) return { path, options };
  throw new SyscallError(
    "UNAVAILABLE",
    `${path} does not know ${missing.join(", ")}, without which its own tools and settings can't be switched off. Update it: claude update`,
    { retryable: false },
  );
}

function usualPlaces(home: string | undefined): string[] {
  const own = [".local/bin/claude", ".claude/local/claude", ".bun/bin/claude", ".npm-global/bin/claude"];
  return [
    ...(home === undefined ? [] : own.map((place) => join(home, place))),
    "/opt/homebrew/bin/claude",
    "/usr/local/bin/claude",
  ];
}

/** Of the Node versions that nvm has, the newest that has it. */
async function ofNvm(home: string | undefined): Promise<string | undefined> {
  if (home === undefined) return undefined;
  const versions = join(home, ".nvm/versions/node");
  const names = await readdir(versions).catch(() => []);
  return names
    .toSorted((a, b) => b.localeCompare(a, "en", { numeric: true }))
    .map((name) => join(versions, name, "bin/claude"))
    .find(isFile);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function notFound(command: string | undefined): SyscallError {
  const what =
    command === undefined
      ? "The program `claude` is neither on the PATH nor where its installers put it. Install Claude Code (npm install -g @anthropic-ai/claude-code), or name it as extra.command in the provider's entry"
      : `There is no program ${command}, which the provider's entry names as extra.command (an absolute path)`;
  return new SyscallError("UNAVAILABLE", what, { retryable: false });
}
