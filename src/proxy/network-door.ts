/** The network of a run's programs: a namespace with nothing but loopback, whose only door is the run's proxy. */

import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { withDeadline } from "../lib/cancellation.ts";
import type { Clock } from "../lib/clock.ts";
import { type Child, type ExecRequest, SyscallError } from "../plugin/index.ts";
import type { Resolve } from "./addresses.ts";
import { BRIDGE } from "./bridge-mode.ts";
import type { ConnectionReport } from "./connection-report.ts";
import { proxyEnvironment } from "./environment.ts";
import { hostRules, loopbackPorts } from "./host-rules.ts";
import { RunProxy } from "./run-proxy.ts";

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
  #ended = false;

  private constructor(argv: readonly string[], port: number, bridge: Child, close: () => void) {
    this.#argv = argv;
    this.#env = proxyEnvironment(port);
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
    const proxy = await RunProxy.listen(path, await hostRules(o.network, o.resolve), o.report);
    const close = (): void => {
      proxy.close();
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
      return new NetworkDoor(enter, port, bridge, close);
    } catch (thrown) {
      close();
      throw thrown;
    }
  }

  /** The request for the same program behind the door. */
  confined<R extends Pick<ExecRequest, "argv" | "env">>(request: R): R {
    if (this.#ended) throw unavailable("its bridge has ended");
    return { ...request, argv: [...this.#argv, ...request.argv], env: { ...request.env, ...this.#env } };
  }
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
