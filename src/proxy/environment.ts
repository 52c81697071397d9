/** The variables by which programs find the proxy. */

const DIRECT = "localhost,127.0.0.1,::1";

/** For curl, git, npm, pip, cargo, Go, Python and, by NODE_USE_ENV_PROXY, Node.js 22.21 and newer. */
export function proxyEnvironment(port: number): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const named = { HTTP_PROXY: url, HTTPS_PROXY: url, ALL_PROXY: url, NO_PROXY: DIRECT };
  const lower = Object.entries(named).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...named, ...Object.fromEntries(lower), NODE_USE_ENV_PROXY: "1" };
}
