/** The OAuth tokens of an MCP server at an address: sent with its requests, refreshed, and got by a login. */

import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import {
  type AuthProvider,
  auth,
  discoverAuthorizationServerMetadata,
  extractWWWAuthenticateParams,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  OAuthError,
  refreshAuthorization,
} from "@modelcontextprotocol/client";
import { SyscallError } from "rnix/plugin";
import { z } from "zod";
import type { HttpSettings } from "./settings.ts";

/** A token is refreshed when it has less time left than this. */
const EARLY_MS = 30_000;
/** For each request to an authorization server. */
const REQUEST_MS = 20_000;

/** Gives stored tokens to the transport. It never waits for a person: without tokens a request fails. */
export function storedTokens({ name, url, tokens: path }: HttpSettings): AuthProvider | undefined {
  if (path === undefined) return undefined;
  const needsLogin = (cause?: unknown): SyscallError =>
    new SyscallError(
      "PERMISSION",
      `MCP server ${name} at ${url} wants a login. In your terminal: rnix mcp login ${name}`,
      { cause },
    );
  /** `used`: the token that the server has refused. Another process may have refreshed it meanwhile. */
  const refreshed = (used: string | undefined): Promise<string> =>
    withLock(path, async () => {
      const login = await readLogin(path, url);
      const tokens = login?.tokens;
      if (tokens && tokens.access_token !== used) return tokens.access_token;
      if (!login || !tokens?.refresh_token) throw needsLogin();
      const { client: clientInformation, authorizationServer, resource } = login;
      const refreshToken = tokens.refresh_token;
      try {
        const metadata = await discoverAuthorizationServerMetadata(authorizationServer, { fetchFn });
        const request = { metadata, clientInformation, refreshToken, resource, fetchFn };
        const fresh = await refreshAuthorization(authorizationServer, request);
        await writeLogin(path, withTokens(login, { ...tokens, ...fresh }));
        return fresh.access_token;
      } catch (thrown) {
        if (thrown instanceof OAuthError) throw needsLogin(thrown);
        throw thrown;
      }
    });
  return {
    token: async () => {
      const login = await readLogin(path, url);
      const token = login?.tokens?.access_token;
      const isOld = login?.expiresAt !== undefined && login.expiresAt - EARLY_MS < Date.now();
      return isOld && login.tokens?.refresh_token ? refreshed(token) : token;
    },
    onUnauthorized: async ({ response }) => {
      if (!(await readLogin(path, url))?.tokens) throw needsLogin();
      await refreshed(tokenOf.get(response));
    },
  };
}

/** Many requests run at a time, and each may have been sent with another token: the answer is what they differ in. */
const tokenOf = new WeakMap<Response, string>();

export function rememberToken(response: Response, headers: RequestInit["headers"]): void {
  const [, token] = /^Bearer (.+)$/i.exec(new Headers(headers).get("authorization") ?? "") ?? [];
  if (token !== undefined) tokenOf.set(response, token);
}

/** The first half of a login has a state, the second what the authorization server sent to the redirect address. */
const LoginRequest = z.object({
  logout: z.boolean().optional(),
  redirect: z.url().default(""),
  state: z.string().optional(),
  code: z.string().optional(),
  iss: z.string().optional(),
});

/**
 * One half of a login, by PKCE. The first registers a client and returns the address for the person's browser; "" if the
 * server wants no login. The second redeems the code and stores the tokens. `logout` removes them.
 */
export async function login({ name, url, tokens: path }: HttpSettings, request: object): Promise<string> {
  const { logout, redirect, state = "", code, iss } = LoginRequest.parse(request);
  if (path === undefined)
    throw new SyscallError("INVALID", `MCP server ${name} has an Authorization header: it needs no login.`);
  if (logout) return (await removeLogin(path)) ? "removed" : "";
  const begun = `${path}.begun`;
  if (code !== undefined) {
    const half = await readLogin(begun, url);
    if (!half) throw new SyscallError("INVALID", `No login of ${name} has begun.`);
    const provider = new LoginProvider(url, redirect, state, half);
    await auth(provider, { serverUrl: url, authorizationCode: code, iss, fetchFn });
    await withLock(path, () => writeLogin(path, { ...provider.login, verifier: undefined }));
    await removeLogin(begun);
    return "";
  }
  const challenge = await asksForLogin(url);
  if (!challenge) return "";
  const provider = new LoginProvider(url, redirect, state);
  await auth(provider, { serverUrl: url, ...challenge, fetchFn });
  await writeLogin(begun, provider.login);
  return provider.address;
}

/** What the server answers to a request without a token; null if it takes it. */
async function asksForLogin(url: string): Promise<{ resourceMetadataUrl?: URL; scope?: string } | null> {
  const response = await fetchFn(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
  });
  await response.body?.cancel();
  if (response.status !== 401) return null;
  const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(response);
  return { resourceMetadataUrl, scope };
}

class LoginProvider implements OAuthClientProvider {
  /** Where the person agrees. */
  address = "";
  readonly redirectUrl: string;
  readonly #state: string;
  #login: Partial<Login> & Pick<Login, "url">;

  constructor(url: string, redirect: string, state: string, begun?: Login) {
    this.redirectUrl = redirect;
    this.#state = state;
    this.#login = begun ?? { url };
  }

  get clientMetadata() {
    return {
      client_name: "Rnix",
      redirect_uris: [this.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }

  get login(): Login {
    const { client, authorizationServer } = this.#login;
    if (!client || authorizationServer === undefined)
      throw new SyscallError("DRIVER", "The authorization server did not register a client.");
    return { ...this.#login, client, authorizationServer };
  }

  state(): string {
    return this.#state;
  }

  clientInformation() {
    return this.#login.client;
  }

  saveClientInformation(client: Login["client"]): void {
    this.#login.client = client;
  }

  /** A login makes new ones, whatever is stored. */
  tokens(): undefined {
    return undefined;
  }

  saveTokens(tokens: NonNullable<Login["tokens"]>): void {
    this.#login = withTokens(this.login, tokens);
  }

  redirectToAuthorization(address: URL): void {
    // It is opened as the person opens a page: no other program may start.
    if (!/^https?:$/.test(address.protocol)) {
      const message = `The login is at ${address.protocol}, not at a page of http or https.`;
      throw new SyscallError("DRIVER", message);
    }
    this.address = address.href;
  }

  saveCodeVerifier(verifier: string): void {
    this.#login.verifier = verifier;
  }

  codeVerifier(): string {
    return this.#login.verifier ?? "";
  }

  saveResourceUrl(resource: string): void {
    this.#login.resource = resource;
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#login.authorizationServer = state.authorizationServerUrl;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    const { authorizationServer } = this.#login;
    return authorizationServer === undefined ? undefined : { authorizationServerUrl: authorizationServer };
  }
}

function withTokens(login: Login, tokens: NonNullable<Login["tokens"]>): Login {
  const { expires_in: seconds } = tokens;
  return { ...login, tokens, expiresAt: seconds === undefined ? undefined : Date.now() + seconds * 1000 };
}

/** Follows no redirect: codes and tokens go where the server's documents name, and nowhere else. */
const fetchFn = (input: string | URL, init?: RequestInit): Promise<Response> =>
  fetch(input, { ...init, redirect: "error", signal: AbortSignal.timeout(REQUEST_MS) });

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
type Login = z.infer<typeof Login>;

/** How long one process may hold the lock: a refresh has a deadline of its own. */
const LOCK_MS = 60_000;
const POLL_MS = 50;

/** null when there is none for this URL. */
async function readLogin(path: string, url: string): Promise<Login | null> {
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
async function writeLogin(path: string, login: Login): Promise<void> {
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
async function removeLogin(path: string): Promise<boolean> {
  try {
    await rm(path);
    return true;
  } catch (thrown) {
    if (isCode(thrown, "ENOENT")) return false;
    throw thrown;
  }
}

/** Runs `work` while no other process does this for the same file. */
async function withLock<T>(path: string, work: () => Promise<T>): Promise<T> {
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
