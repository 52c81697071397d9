/** The networks of the processes whose option `network` limits it. */

import { join } from "node:path";
import { type Child, type ExecRequest, SyscallError } from "../../plugin/index.ts";
import { type ConnectionReport, refusalText } from "../../proxy/connection-report.ts";
import { deniesByDefault, hostRules, isLimited } from "../../proxy/host-rules.ts";
import type { NetworkDoor } from "../../proxy/network-door.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";

const NO_LIMITS = "This kernel can't limit the network of a run.";
/** Maximum refused hosts in the note beside one result. */
const MAX_NOTED = 10;

/** Opens the door of a process with its first program. It closes with the programs of the process. */
export class RunNetworks {
  readonly #core: Core;
  readonly #doors = new WeakMap<Process, Promise<NetworkDoor>>();
  /** Why hosts were refused since the last result, by host. */
  readonly #refused = new WeakMap<Process, Map<string, string>>();
  readonly #shown = new WeakMap<Process, Set<string>>();
  #opened = 0;

  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * The door for a program of a process with a limited network. `start` starts a program that ends with it.
   * With `hosts`, which the others do not reach, it is a door for this program alone, which its owner closes.
   */
  async doorOf(
    proc: Process,
    start: (request: ExecRequest) => Promise<Child>,
    hosts?: readonly string[],
  ): Promise<NetworkDoor> {
    if (hosts) return this.#open(proc, start, hosts);
    const door = this.#doors.get(proc) ?? this.#open(proc, start);
    this.#doors.set(proc, door);
    // After a failure, the next program tries to open the network again.
    door.catch(() => this.#doors.delete(proc));
    return door;
  }

  /**
   * Decides about a connection that the daemon makes for the process, by the rules of its programs, and records it.
   * Returns the checked addresses; null: no limit. Fails with PERMISSION, and with NOT_FOUND for an unknown name.
   */
  async connect(proc: Process, url: string): Promise<string[] | null> {
    const { network } = proc.spec.opts;
    const { hostname, port, protocol } = new URL(url);
    const host = proc.secrets.hide(hostname.replace(/^\[|\]$/g, ""));
    const report: ConnectionReport = { host, port: Number(port) || (protocol === "http:" ? 80 : 443) };
    if (!isLimited(network)) {
      this.#record(proc, report);
      return null;
    }
    const resolve = this.#core.network?.resolve;
    if (!resolve) throw new SyscallError("UNAVAILABLE", NO_LIMITS);
    try {
      const decision = await (await hostRules(network, resolve)).decide(host, report.port);
      if (!decision.allowed)
        throw new SyscallError("PERMISSION", refusalText({ ...report, refused: decision }));
      this.#record(proc, { ...report, rule: decision.rule, address: decision.addresses[0] });
      return decision.addresses;
    } catch (thrown) {
      throw this.#recordFailed(proc, report, thrown);
    }
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
    exec: (request: ExecRequest) => Promise<Child>,
    hosts?: readonly string[],
  ): Promise<NetworkDoor> {
    const { clock, network: ports } = this.#core;
    const { boundSecrets: secrets = [], env, network = [] } = proc.spec.opts;
    const bound = { secrets, env, redaction: proc.secrets, readable: proc.record.spillDir };
    if (!ports) throw new SyscallError("UNAVAILABLE", NO_LIMITS);
    // Loaded at its first use: most runs have no limit.
    const { NetworkDoor } = await import("../../proxy/network-door.ts");
    this.#opened += 1;
    return await NetworkDoor.open({
      network: [...network, ...(hosts ?? [])],
      exec,
      clock,
      program: ports.program,
      resolve: ports.resolve,
      folder: join(ports.folder, `${proc.uuid.slice(-12)}-${this.#opened}`),
      signal: proc.signal,
      report: (report) => this.#report(proc, report),
      ...(secrets.length > 0 && !hosts && deniesByDefault(network) && { bound }),
    });
  }

  #report(proc: Process, given: ConnectionReport): void {
    const report = { ...given, host: proc.secrets.hide(given.host) };
    const { refused, failed, ...facts } = report;
    if (!refused && failed === undefined) {
      this.#record(proc, facts);
      return;
    }
    const text = failed ?? refusalText(report);
    this.#recordFailed(proc, facts, new SyscallError(refused ? "PERMISSION" : "UNAVAILABLE", text));
    if (!refused) return;
    const at = `${report.host}:${report.port}`;
    this.#refused.getOrInsertComputed(proc, () => new Map()).set(at, text);
    const shown = this.#shown.getOrInsertComputed(proc, () => new Set());
    if (!shown.has(at)) this.#core.watchers.notice(proc, text);
    shown.add(at);
  }

  #record(proc: Process, facts: ConnectionReport): void {
    const { debug } = this.#core;
    debug.callNow(proc, proc, "Connect", { ...facts }, () => undefined);
  }

  #recordFailed(proc: Process, facts: ConnectionReport, thrown: unknown): SyscallError {
    const error = namedError(thrown, "Connect", proc.pid);
    this.#core.debug.failed(proc, proc, "Connect", { ...facts }, error);
    return error;
  }
}
