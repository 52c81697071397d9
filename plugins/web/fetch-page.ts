/** Fetches one address: https first, from checked addresses only, with a limit of bytes, along redirects of its host. */

import { SyscallError } from "rnix/plugin";
import { proxyFor } from "../_lib/proxy.ts";
import { checkedAddresses, isListed, type Resolve } from "./public-address.ts";

export interface Network {
  /** The run's environment, which may name a proxy. */
  env: Readonly<Record<string, string>>;
  /** Addresses that are not public and may be reached. */
  addresses: readonly string[];
  resolve: Resolve;
  /** The checked addresses of a host that the run reaches; null: its network is not limited. */
  connect(url: string): Promise<string[] | null>;
  signal: AbortSignal;
}

export interface FetchedPage {
  /** The address that answered. */
  url: string;
  /** Its `content-type`, as it came. */
  type: string;
  body: Uint8Array;
  /** The body has more than MAX_BODY. */
  truncated: boolean;
}

export const MAX_BODY = 10 * 1024 ** 2;
const MAX_REDIRECTS = 5;
/** A name can have dozens of addresses; the first that accepts a connection counts. */
const MAX_ADDRESSES = 4;

/** `to`: a redirect to another host, which the caller decides about. */
export async function fetchPage(text: string, network: Network): Promise<FetchedPage | { to: string }> {
  let url = webAddress(text);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const { response, address } = await reach(url, network);
    const location = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || location === null)
      return await pageOf(address, response, network.signal);
    await response.body?.cancel();
    const next = webAddress(location, address);
    if (hostOf(next) !== hostOf(url)) return { to: next.href };
    url = next;
  }
  throw new SyscallError("UNAVAILABLE", `${text} redirects more than ${MAX_REDIRECTS} times.`);
}

/** An http or https URL without credentials. */
function webAddress(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new SyscallError(
      "INVALID",
      `Expected a URL that begins with https://, got "${text.slice(0, 200)}".`,
    );
  if (url.username !== "" || url.password !== "")
    throw new SyscallError("INVALID", "A URL with a user name or a password is not fetched.");
  url.hash = "";
  return url;
}

/** `www.` is the same host for its readers. */
function hostOf({ hostname, port }: URL): string {
  return `${hostname.replace(/^www\./, "")}:${port}`;
}

/** The answer, and the address that gave it: https where the address says http without a port, if a server accepts it. */
async function reach(url: URL, network: Network): Promise<{ response: Response; address: URL }> {
  const secure = url.port === "" ? new URL(url.href.replace(/^http:/, "https:")) : url;
  const addresses = await checked(secure, network);
  if (secure.href !== url.href && !isListed(addresses ?? [], network.addresses)) {
    const response = await request(secure, addresses, network).catch((thrown: unknown) => {
      network.signal.throwIfAborted();
      if (isUnreachable(thrown)) return null;
      throw thrown;
    });
    if (response !== null) return { response, address: secure };
  }
  const own = secure.href === url.href ? addresses : await checked(url, network);
  return { response: await request(url, own, network), address: url };
}

/**
 * The checked addresses of the host; null where the user's proxy resolves the name, because this machine can't. A name
 * that this machine can resolve is checked with a proxy, too.
 */
async function checked(
  url: URL,
  { env, addresses, resolve, connect, signal }: Network,
): Promise<string[] | null> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    signal.throwIfAborted();
    const reached = await Promise.race([connect(url.href), aborted]);
    const found: Resolve = reached === null ? resolve : async () => reached;
    return await Promise.race([checkedAddresses(url.hostname, addresses, found), aborted]);
  } catch (thrown) {
    const isUnknown = thrown instanceof SyscallError && thrown.code === "NOT_FOUND";
    if (isUnknown && proxyFor(url.href, env) !== undefined) return null;
    throw thrown;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const HEADERS = {
  accept: "text/markdown, text/html;q=0.9, application/json;q=0.9, text/plain;q=0.8, */*;q=0.5",
  "accept-language": "en;q=0.9, *;q=0.5",
  "user-agent": "Mozilla/5.0 (compatible; Rnix/1.0)",
};

/** One request, to the first of the addresses that accepts a connection. */
async function request(url: URL, addresses: readonly string[] | null, network: Network): Promise<Response> {
  const { env, signal } = network;
  const proxy = proxyFor(url.href, env);
  const options: BunFetchRequestInit = {
    headers: HEADERS,
    redirect: "manual",
    signal,
    timeout: false,
    // A connection that is kept was checked for another name's certificate.
    keepalive: false,
    ...(proxy !== undefined && { proxy }),
  };
  if (proxy !== undefined || addresses === null) return await attempt(url.href, options, url);
  const pinned = { ...options, headers: { ...HEADERS, host: url.host }, tls: { serverName: url.hostname } };
  let failure: unknown;
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    const to = new URL(url.href);
    to.hostname = address.includes(":") ? `[${address}]` : address;
    try {
      return await attempt(to.href, pinned, url);
    } catch (thrown) {
      signal.throwIfAborted();
      failure = thrown;
    }
  }
  throw failure;
}

async function attempt(to: string, options: BunFetchRequestInit, url: URL): Promise<Response> {
  try {
    return await fetch(to, options);
  } catch (cause) {
    const code = codeOf(cause);
    const why = /CERT|TLS|SSL|SELF_SIGNED/.test(code) ? `its certificate is refused (${code})` : code;
    throw new SyscallError("UNAVAILABLE", `${url.origin} can't be reached: ${why}.`, { cause });
  }
}

function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "no connection";
}

/** No server accepts a connection there. A refused certificate is an answer. */
function isUnreachable(thrown: unknown): boolean {
  const code = thrown instanceof SyscallError ? codeOf(thrown.cause) : "";
  return ["ConnectionRefused", "ConnectionClosed", "ECONNRESET"].includes(code);
}

async function pageOf(url: URL, response: Response, signal: AbortSignal): Promise<FetchedPage> {
  if (!response.ok) {
    await response.body?.cancel();
    const message = `${url.href} answered with status ${response.status}.`;
    const isGone = response.status === 404 || response.status === 410;
    throw isGone ? new SyscallError("NOT_FOUND", message) : statusError(message, response);
  }
  const type = response.headers.get("content-type") ?? "";
  try {
    return { url: url.href, type, ...(await readBody(response, MAX_BODY)) };
  } catch (cause) {
    signal.throwIfAborted();
    throw new SyscallError("UNAVAILABLE", `${url.href} broke off: ${codeOf(cause)}.`, { cause });
  }
}

/** The body, up to a limit of bytes. */
export async function readBody(
  response: Response,
  max: number,
): Promise<{ body: Uint8Array; truncated: boolean }> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    bytes += chunk.byteLength;
    if (bytes > max) break;
  }
  return { body: Buffer.concat(chunks).subarray(0, max), truncated: bytes > max };
}

/** The error of a server that refuses, is asked too often, or fails. */
export function statusError(message: string, { status, headers }: Response): SyscallError {
  if (status === 401 || status === 403 || status === 407) return new SyscallError("PERMISSION", message);
  if (status !== 429) return new SyscallError("UNAVAILABLE", message);
  const seconds = Number(headers.get("retry-after"));
  return new SyscallError("EXHAUSTED", message, seconds > 0 ? { retryAfterMs: seconds * 1_000 } : {});
}
