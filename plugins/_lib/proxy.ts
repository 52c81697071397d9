/** The HTTP proxy that the environment of a run names for an address. */

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Returns the proxy's address, or undefined for a direct connection: `http_proxy` or `https_proxy` by the address's
 * scheme, else `all_proxy`, in lower or upper case, unless `no_proxy` lists the host. A loopback address is never
 * proxied (as in Go's net/http). The daemon has none of these variables itself: each run brings its own.
 */
export function proxyFor(address: string, env: Env): string | undefined {
  const { protocol, hostname, port } = new URL(address);
  if (isLoopback(hostname)) return undefined;
  const scheme = protocol === "http:" ? "HTTP_PROXY" : "HTTPS_PROXY";
  const proxy = variable(env, scheme) ?? variable(env, "ALL_PROXY");
  if (proxy === undefined) return undefined;
  const direct = (variable(env, "NO_PROXY") ?? "").split(/[\s,]+/).filter((entry) => entry !== "");
  return direct.some((entry) => isListed(entry, hostname, port)) ? undefined : withScheme(proxy);
}

function variable(env: Env, name: string): string | undefined {
  return env[name.toLowerCase()] || env[name] || undefined;
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || hostname.startsWith("127.");
}

/** `*`, a host, `.domain` or `domain` with all below it, each with an optional port. */
function isListed(entry: string, hostname: string, port: string): boolean {
  if (entry === "*") return true;
  const [, name = entry, onlyPort] = /^(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const domain = name.replace(/^\*?\./, "");
  return domain !== "" && (hostname === domain || hostname.endsWith(`.${domain}`));
}

function withScheme(proxy: string): string {
  return proxy.includes("://") ? proxy : `http://${proxy}`;
}
