/** The networks of the processes whose option `network` limits it. */

import { join } from "node:path";
import type { Clock } from "../../lib/clock.ts";
import { type Child, type ExecRequest, SyscallError } from "../../plugin/index.ts";
import { type ConnectionReport, refusalText } from "../../proxy/connection-report.ts";
import { isLimited } from "../../proxy/host-rules.ts";
import type { NetworkDoor } from "../../proxy/network-door.ts";

import type { Debugger } from "../debugger.ts";
import type { ProcessEvents } from "../events/process-events.ts";
import type { NetworkPorts } from "../kernel-ports.ts";
import type { Process } from "../process/process.ts";

interface RunNetworksPorts {
  clock: Clock;
  debug: Debugger;
  watchers: Pick<ProcessEvents, "notice">;
  /** Absent: this embedder can't limit a network. */
  network?: NetworkPorts;
}

/** Maximum refused hosts in the note beside one result. */
const MAX_NOTED = 10;

/** Opens the door of a process with its first program. It closes with the programs of the process. */
export class RunNetworks {
  readonly #ports: RunNetworksPorts;
  readonly #doors = new WeakMap<Process, Promise<NetworkDoor>>();
  /** Why hosts were refused since the last result, by host. */
  readonly #refused = new WeakMap<Process, Map<string, string>>();
  readonly #shown = new WeakMap<Process, Set<string>>();

  constructor(ports: RunNetworksPorts) {
    this.#ports = ports;
  }

  /** The request for the program behind the door of the process. `start` starts a program that ends with it. */
  async confined<R extends Pick<ExecRequest, "argv" | "env">>(
    proc: Process,
    request: R,
    start: (request: ExecRequest) => Promise<Child>,
  ): Promise<R> {
    const { network } = proc.spec.opts;
    if (!isLimited(network)) return request;
    const door = this.#doors.get(proc) ?? this.#open(proc, network, start);
    this.#doors.set(proc, door);
    return (await door).confined(request);
  }

  /** What was refused since the last result, for the model. */
  takeRefused(proc: Process): string {
    const refused = [...(this.#refused.get(proc)?.values() ?? [])];
    this.#refused.delete(proc);
    const more = refused.length > MAX_NOTED ? [`${refused.length - MAX_NOTED} more hosts were refused.`] : [];
    return [...refused.slice(0, MAX_NOTED), ...more].map((line) => `\n[${line}]`).join("");
  }

  async #open(
    proc: Process,
    network: readonly string[],
    exec: (request: ExecRequest) => Promise<Child>,
  ): Promise<NetworkDoor> {
    const { clock, network: ports } = this.#ports;
    try {
      if (!ports) throw new SyscallError("UNAVAILABLE", "This kernel can't limit the network of a run.");
      // Loaded at its first use: most runs have no limit.
      const { NetworkDoor } = await import("../../proxy/network-door.ts");
      return await NetworkDoor.open({
        network,
        exec,
        clock,
        program: ports.program,
        resolve: ports.resolve,
        folder: join(ports.folder, proc.uuid.slice(-12)),
        signal: proc.signal,
        report: (report) => this.#report(proc, report),
      });
    } catch (thrown) {
      this.#doors.delete(proc);
      throw thrown;
    }
  }

  #report(proc: Process, given: ConnectionReport): void {
    const { debug, watchers } = this.#ports;
    const report = { ...given, host: proc.secrets.hide(given.host) };
    const { refused, failed, ...facts } = report;
    if (!refused && failed === undefined) {
      debug.callNow(proc, proc, "Connect", facts, () => undefined);
      return;
    }
    const text = failed ?? refusalText(report);
    const error = new SyscallError(refused ? "PERMISSION" : "UNAVAILABLE", text);
    debug.failed(proc, proc, "Connect", facts, error);
    if (!refused) return;
    const at = `${report.host}:${report.port}`;
    const since = this.#refused.get(proc) ?? new Map<string, string>();
    this.#refused.set(proc, since.set(at, text));
    const shown = this.#shown.get(proc) ?? new Set();
    if (!shown.has(at)) watchers.notice(proc, text);
    this.#shown.set(proc, shown.add(at));
  }
}
