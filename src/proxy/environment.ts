/** The variables by which programs find the proxy. */

const DIRECT = "localhost,127.0.0.1,::1";

/** For curl, git, npm, pip, cargo, Go, Python and, by NODE_USE_ENV_PROXY, Node.js 22.21 and newer. */
export function proxyEnvironment(port: number): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const named = { HTTP_PROXY: url, HTTPS_PROXY: url, ALL_PROXY: url, NO_PROXY: DIRECT };
  const lower = Object.entries(named).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...named, ...Object.fromEntries(lower), NODE_USE_ENV_PROXY: "1" };
}

/** The variables by which programs trust an authority. `own`: its certificate; `all`: with those of the system. */
export function trustEnvironment({ own, all }: { own: string; all: string }): Record<string, string> {
  const whole = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
  ];
  const named = whole.map((name) => [name, all]);
  return { ...Object.fromEntries(named), NODE_EXTRA_CA_CERTS: own, DENO_CERT: own };
}
