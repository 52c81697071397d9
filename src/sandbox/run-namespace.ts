/** The namespaces of a run's sandbox: bubblewrap makes them once, and each program of the run joins them. */

import { closeSync, openSync, readlinkSync } from "node:fs";
import { libc } from "../os/libc.ts";
import { childrenOf } from "../os/program-group.ts";
import type { Child } from "../plugin/index.ts";
import { ROOT_RIGHTS } from "./sandbox.ts";

/**
 * Holds the namespaces until its stdin is closed, so that they end with this process, too. As their first process it reaps
 * orphans, and no program inside can end it.
 */
const HOLDER = ["/bin/bash", "-c", "echo ready && read -r _"];

/** What a program joins, as nsenter names it. */
const JOINED = { mount: "mnt", pid: "pid", ipc: "ipc" } as const;

/** Starts a program in the namespaces, or the one that holds them. */
export type StartJoined = (argv: string[], isHolder: boolean) => Promise<Child>;

export interface NamespaceOptions {
  /** The command line of bubblewrap. */
  confine: readonly string[];
  isRoot: boolean;
  /** The holder is in the network namespace of its run, which programs join, too. */
  isBehindDoor: boolean;
  start: StartJoined;
}

export class RunNamespace {
  /** The first process of the PID namespace: orphans become its children. */
  readonly init: number;
  readonly #descriptors: readonly number[];
  readonly #enter: readonly string[];
  readonly #restrict: readonly string[];
  hasEnded = false;

  private constructor(holder: Child, init: number, { isRoot, isBehindDoor }: NamespaceOptions) {
    this.init = init;
    const { descriptors, enter } = entrance(init, isRoot, isBehindDoor);
    this.#descriptors = descriptors;
    this.#enter = enter;
    this.#restrict = restriction(isRoot);
    void holder.exited().finally(() => {
      this.hasEnded = true;
      for (const descriptor of this.#descriptors) closeSync(descriptor);
    });
  }

  /** null where a program can't join: then each has a sandbox of its own. */
  static async open(o: NamespaceOptions): Promise<RunNamespace | null> {
    // A user's mounts belong to another user namespace than the network, and no program can join both.
    if (o.isBehindDoor && !o.isRoot) return null;
    const holder = await o.start([...o.confine.slice(0, -1), "--as-pid-1", "--", ...HOLDER], true);
    try {
      const ready = await holder.read();
      const [init] = childrenOf(holder.pid);
      if (ready?.fd === 1 && init !== undefined) {
        const made = new RunNamespace(holder, init, o);
        const trial = await o.start(made.joining("/", ["/bin/sh", "-c", ":"]), false);
        if ((await trial.exited()).code === 0) return made;
      }
    } catch {
      // What fails here, such as a missing nsenter, is no reason to run without a sandbox.
    }
    await holder.kill();
    return null;
  }

  /** The command line of the program in these namespaces, with no more rights than bubblewrap leaves. */
  joining(cwd: string, argv: readonly string[]): string[] {
    return [...this.#enter, `--wdns=${cwd}`, "--", ...this.#restrict, ...argv];
  }
}

/**
 * The command line that joins. It names open descriptors: a PID could be that of another process by then. Bubblewrap runs
 * a user's program in a user namespace below the one that owns the mounts, so this is joined first.
 */
function entrance(
  init: number,
  isRoot: boolean,
  isBehindDoor: boolean,
): { descriptors: number[]; enter: string[] } {
  const descriptors: number[] = [];
  const named = (descriptor: number): string => {
    descriptors.push(descriptor);
    return `/proc/${process.pid}/fd/${descriptor}`;
  };
  const open = (name: string): string => named(openSync(`/proc/${init}/ns/${name}`, "r"));
  try {
    const joined = Object.entries(JOINED).map(([flag, name]) => `--${flag}=${open(name)}`);
    if (readlinkSync(`/proc/${init}/ns/user`) === readlinkSync("/proc/self/ns/user")) {
      if (!isRoot) throw new Error("the namespaces of a user belong to another user namespace");
      return { descriptors, enter: [system("nsenter"), ...joined] };
    }
    if (isBehindDoor) {
      // For root, bubblewrap makes no user namespace below that of the network.
      const all = [`--user=${open("user")}`, ...joined, `--net=${open("net")}`, "--preserve-credentials"];
      return { descriptors, enter: [system("nsenter"), ...all] };
    }
    const own = openSync(`/proc/${init}/ns/user`, "r");
    const above = libc()?.parentNamespace(own) ?? -1;
    closeSync(own);
    if (above < 0) throw new Error("the parent of a user namespace can't be opened");
    const outer = [system("nsenter"), `--user=${named(above)}`, ...joined, "--preserve-credentials", "--"];
    return {
      descriptors,
      enter: [...outer, system("nsenter"), "--user=/proc/1/ns/user", "--preserve-credentials"],
    };
  } catch (thrown) {
    for (const descriptor of descriptors) closeSync(descriptor);
    throw thrown;
  }
}

function restriction(isRoot: boolean): string[] {
  if (!isRoot) return [system("setpriv"), "--no-new-privs", "--"];
  const kept = ["-all", ...Object.keys(ROOT_RIGHTS).map((right) => `+${right.toLowerCase()}`)].join(",");
  return [system("setpriv"), "--no-new-privs", "--bounding-set", kept, "--inh-caps=-all", "--"];
}

/** Of the system: a folder of the run's PATH may be one that its programs write. */
function system(name: string): string {
  const found = Bun.which(name, { PATH: SYSTEM_FOLDERS });
  if (found === null) throw new Error(`${name} is not installed`);
  return found;
}

const SYSTEM_FOLDERS = "/usr/sbin:/usr/bin:/sbin:/bin";
