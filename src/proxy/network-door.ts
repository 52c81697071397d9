/** The network of a run's programs: a namespace with nothing but loopback, whose only door is the run's proxy. */

import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Clock, withDeadline } from "../lib/clock.ts";
import { BRIDGE } from "../lib/hidden-modes.ts";
import { readRegularSync } from "../lib/regular-file.ts";
import { type Child, type ExecRequest, SyscallError } from "../plugin/index.ts";
import type { Resolve } from "./addresses.ts";
import type { BoundSecret } from "./bound-secret.ts";
import type { ConnectionReport } from "./connection-report.ts";
import { hostRules, loopbackPorts } from "./host-rules.ts";
import { RunProxy } from "./run-proxy.ts";
import type { Redaction } from "./tls-opener.ts";

interface DoorOptions {
  /** The values of the option `network`. */
  network: readonly string[];
  /** Starts a program that ends with the run. */
  exec(request: ExecRequest): Promise<Child>;
  /** How this binary is started. */
  program: readonly string[];
  /** A folder of this run alone, for the socket. It is made, and removed at the end. */
  folder: string;
  report(report: ConnectionReport): void;
  /** Secrets for hosts that the network lists, and a folder that programs can read. */
  bound?: {
    secrets: readonly BoundSecret[];
    redaction: Redaction;
    readable: string;
    /** The environment of the programs, which may name further authorities. */
    env: Readonly<Record<string, string>>;
    /** Those of the servers, for tests. */
    trusted?: string[];
  };
  resolve: Resolve;
  clock: Clock;
  /** Fires when the run ends. */
  signal: AbortSignal;
}

const OPEN_MS = 15_000;
const MISSING = "it needs Linux with bubblewrap (apt install bubblewrap) and nsenter (util-linux)";

/** What a machine needs, by their paths. */
interface NamespacePrograms {
  bwrap: string;
  nsenter: string;
}

function namespacePrograms(): NamespacePrograms | null {
  if (process.platform !== "linux") return null;
  const [bwrap, nsenter] = [Bun.which("bwrap"), Bun.which("nsenter")];
  return bwrap && nsenter ? { bwrap, nsenter } : null;
}

/** Why this machine can't limit the network of a run; null: it can. `run` gives the exit code and output of a program. */
export async function networkProblem(
  run: (argv: string[]) => Promise<{ code: number | null; output: string }>,
): Promise<string | null> {
  const programs = namespacePrograms();
  if (programs === null) return MISSING;
  const { code, output } = await run(inNewNetwork(programs, ["true"]));
  return code === 0 ? null : `${programs.bwrap}: ${output.trim() || "it failed"}`;
}

/** The arguments of a program in new namespaces of users and network. It sees the same files and processes. */
function inNewNetwork({ bwrap }: NamespacePrograms, argv: readonly string[]): string[] {
  return [bwrap, "--unshare-user", "--unshare-net", "--dev-bind", "/", "/", "--", ...argv];
}

export class NetworkDoor {
  readonly #argv: readonly string[];
  readonly #env: Record<string, string>;
  readonly #bridge: Child;
  #ended = false;

  private constructor(
    argv: readonly string[],
    env: Record<string, string>,
    bridge: Child,
    close: () => void,
  ) {
    this.#argv = argv;
    this.#env = env;
    this.#bridge = bridge;
    void bridge.exited().finally(() => {
      this.#ended = true;
      close();
    });
  }

  /** Opens the proxy and starts the bridge. Fails with UNAVAILABLE. */
  static async open(o: DoorOptions): Promise<NetworkDoor> {
    const programs = namespacePrograms();
    if (programs === null) throw unavailable(MISSING);
    mkdirSync(o.folder, { recursive: true, mode: 0o700 });
    const path = join(o.folder, "proxy");
    const opened = o.bound && (await openedHosts(o.bound, o));
    const rules = await hostRules(o.network, o.resolve);
    const proxy = await RunProxy.listen(path, rules, o.report, opened && { ...o.bound, ...opened });
    const close = (): void => {
      proxy.close();
      opened?.close();
      rmSync(o.folder, { recursive: true, force: true });
    };
    try {
      const ports = loopbackPorts(o.network).map(String);
      const argv = inNewNetwork(programs, [...o.program, BRIDGE, path, ...ports]);
      const bridge = await o.exec({ argv, env: {}, stdin: "pipe", life: "process" });
      const ready = await withDeadline(o.clock, o.signal, OPEN_MS, "the bridge did not start", () =>
        firstLine(bridge),
      );
      const [port, pid] = ready.split(" ").map(Number);
      if (!port || !pid) throw unavailable(ready.trim() || "the bridge ended");
      const enter = [programs.nsenter, `--target=${pid}`, "--user", "--net", "--preserve-credentials", "--"];
      const env = { ...proxyEnvironment(port), ...opened?.env };
      return new NetworkDoor(enter, env, bridge, close);
    } catch (thrown) {
      close();
      throw thrown;
    }
  }

  /** Ends it before the run does. */
  close(): void {
    void this.#bridge.end();
  }

  /** The request for the same program behind the door. */
  confined<R extends Pick<ExecRequest, "argv" | "env">>(request: R): R {
    return this.within({ ...request, argv: [...this.#argv, ...request.argv] });
  }

  /** The request for a program that joins another one behind the door. */
  within<R extends Pick<ExecRequest, "env">>(request: R): R {
    if (this.#ended) throw unavailable("its bridge has ended");
    return { ...request, env: { ...request.env, ...this.#env } };
  }
}

/** What opens TLS for the hosts of secrets, and the environment in which programs trust it. */
async function openedHosts(
  { redaction, readable, trusted, secrets, env }: NonNullable<DoorOptions["bound"]>,
  { clock, folder, report }: DoorOptions,
) {
  // Loaded with the first secret: most runs have none.
  const [{ RunAuthority }, { TlsOpener }] = await Promise.all([
    import("./certificates.ts"),
    import("./tls-opener.ts"),
  ]);
  const authority = new RunAuthority(clock.now());
  const opener = new TlsOpener({ authority, folder, redaction, report, trusted });
  mkdirSync(readable, { recursive: true });
  const files = { own: join(readable, "run-ca.pem"), all: join(readable, "run-ca-bundle.pem") };
  const own = [textOf(env.NODE_EXTRA_CA_CERTS), authority.cert].join("\n");
  writeFileSync(files.own, own);
  writeFileSync(files.all, `${textOf(env.SSL_CERT_FILE) || (await systemAuthorities())}\n${own}`);
  const close = (): void => {
    opener.close();
    for (const file of Object.values(files)) rmSync(file, { force: true });
  };
  return { secrets, opener, env: trustEnvironment(files), close };
}

/** Empty for a file that is not there. */
function textOf(file: string | undefined): string {
  return file !== undefined && existsSync(file) ? readRegularSync(file, MAX_AUTHORITIES).toString() : "";
}

const MAX_AUTHORITIES = 4 * 1024 ** 2;
const SYSTEM_FILES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/** The certificates that programs trust without us, in PEM. */
async function systemAuthorities(): Promise<string> {
  const file = SYSTEM_FILES.find(existsSync);
  if (file !== undefined) return textOf(file);
  return (await import("node:tls")).rootCertificates.join("\n");
}

/** The first output of the bridge: its line, or the error of what did not start it. */
async function firstLine(bridge: Child): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece = await bridge.read(); piece !== null; piece = await bridge.read()) {
    text += decoder.decode(piece.data, { stream: true });
    if (text.includes("\n")) break;
  }
  return text;
}

function unavailable(why: string): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    `The network of this run can't be limited: ${why}. With --network on it is not limited.`,
  );
}

const DIRECT = "localhost,127.0.0.1,::1";

/** For curl, git, npm, pip, cargo, Go, Python and, by NODE_USE_ENV_PROXY, Node.js 22.21 and newer. */
function proxyEnvironment(port: number): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const named = { HTTP_PROXY: url, HTTPS_PROXY: url, ALL_PROXY: url, NO_PROXY: DIRECT };
  const lower = Object.entries(named).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...named, ...Object.fromEntries(lower), NODE_USE_ENV_PROXY: "1" };
}

/** The variables by which programs trust an authority. `own`: its certificate; `all`: with those of the system. */
function trustEnvironment({ own, all }: { own: string; all: string }): Record<string, string> {
  const whole = "SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT CARGO_HTTP_CAINFO";
  const named = whole.split(" ").map((name) => [name, all]);
  return { ...Object.fromEntries(named), NODE_EXTRA_CA_CERTS: own, DENO_CERT: own };
}
