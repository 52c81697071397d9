/** The file with the OAuth tokens for one server's URL. */

import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { SyscallError } from "rnix/plugin";
import { z } from "zod";

/** The library checks what it gets from servers; what is stored is only passed back to it. */
const Client = z.looseObject({ client_id: z.string(), client_secret: z.string().optional() });
const Tokens = z.looseObject({
  access_token: z.string(),
  token_type: z.string(),
  refresh_token: z.string().optional(),
  expires_in: z.number().optional(),
});
const Login = z.object({
  /** The tokens are sent to this URL only. */
  url: z.string(),
  authorizationServer: z.string(),
  resource: z.string().optional(),
  client: Client,
  /** Until the login is complete. */
  verifier: z.string().optional(),
  tokens: Tokens.optional(),
  /** ms since 1970. */
  expiresAt: z.number().optional(),
});
export type Login = z.infer<typeof Login>;

/** How long one process may hold the lock: a refresh has a deadline of its own. */
const LOCK_MS = 60_000;
const POLL_MS = 50;

/** null when there is none for this URL. */
export async function readLogin(path: string, url: string): Promise<Login | null> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (thrown) {
    if (isCode(thrown, "ENOENT")) return null;
    throw thrown;
  }
  const parsed = Login.safeParse(parsedJson(text));
  if (parsed.success) return parsed.data.url === url ? parsed.data : null;
  const message = `${path}: expected tokens of an MCP server. Remove the file and log in again.`;
  throw new SyscallError("INVALID", message);
}

/** Replaces the file, with mode 0600. */
export async function writeLogin(path: string, login: Login): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${crypto.randomUUID()}.tmp`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(JSON.stringify(login));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
}

/** Returns false when there is none. */
export async function removeLogin(path: string): Promise<boolean> {
  try {
    await rm(path);
    return true;
  } catch (thrown) {
    if (isCode(thrown, "ENOENT")) return false;
    throw thrown;
  }
}

/** Runs `work` while no other process does this for the same file. */
export async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}.lock`;
  const until = performance.now() + LOCK_MS;
  while (!(await created(lock))) {
    // A process that was killed has left it.
    const made = await stat(lock).then(
      ({ mtimeMs }) => mtimeMs,
      () => Date.now(),
    );
    if (Date.now() - made > LOCK_MS) await rm(lock, { force: true });
    else if (performance.now() > until)
      throw new SyscallError("TIMEOUT", `${lock} is held by another process for ${LOCK_MS / 1000} s.`);
    else await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

async function created(lock: string): Promise<boolean> {
  try {
    await (await open(lock, "wx", 0o600)).close();
    return true;
  } catch (thrown) {
    if (isCode(thrown, "EEXIST")) return false;
    throw thrown;
  }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCode(thrown: unknown, code: string): boolean {
  return thrown instanceof Error && "code" in thrown && thrown.code === code;
}
