/** The checks of `rnix doctor`. */

import { existsSync, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { homeNotice, thisUser, type UserPaths, userPaths } from "../../config/environment/paths.ts";
import { canWrite } from "../../config/files/file.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { DaemonStatus } from "../../protocol/methods.ts";
import { leftovers, projectOf } from "../../server/offline-commands.ts";
import { commit, version } from "../../version.ts";
import { environment, type Io, project, withWire } from "../io.ts";
import { plural } from "../output/format.ts";
import type { Finding } from "./finding.ts";

/** Runs all checks in order. Programs left running are listed before a starting daemon ends them. */
export async function examine(io: Io): Promise<Finding[]> {
  const findings = [binary(), ...folders(io), keys(io)];
  findings.push(await attempt("programs left running", () => leftRunning(io)));
  findings.push(...(await ofDaemon(io)));
  findings.push(await attempt("sandbox", () => sandbox(io)));
  findings.push(await attempt("limits", limits));
  return findings;
}

async function ofDaemon(io: Io): Promise<Finding[]> {
  let status: DaemonStatus;
  try {
    status = await withWire(io, (wire) => wire.request("daemon_status", {}));
  } catch (error) {
    return [{ name: "daemon", state: "bad", text: messageOf(error) }];
  }
  return [
    daemon(status),
    strays(status),
    init(status),
    await attempt("providers", () => providers(io)),
    ...(await schedules(io)),
  ];
}

function binary(): Finding {
  const text = `rnix ${version} (${commit}), ${process.platform} ${process.arch}, ${process.execPath}`;
  if (process.platform === "linux" || process.platform === "darwin")
    return { name: "binary", state: "ok", text };
  return { name: "binary", state: "bad", text, advice: "this system is not supported; on Windows use WSL" };
}

function folders(io: Io): Finding[] {
  const user = userPaths(io.env);
  const { socket, dataDir, configDir } = user;
  const { dataDir: runs } = projectOf({ cwd: io.cwd, env: environment(io) });
  return [
    folder("socket folder", dirname(socket), { othersMayLook: false }),
    dataFinding(user),
    settingsFinding(configDir),
    ...(runs === dataDir ? [] : [folder("runs of this project", runs, { othersMayLook: true })]),
  ];
}

function dataFinding(user: UserPaths): Finding {
  const text = homeNotice(user);
  if (text !== undefined) return { name: "your data", state: "note", text };
  return folder("your data", user.dataDir, { othersMayLook: true });
}

/** Rnix only reads the configuration: without its folder, the defaults apply. */
function settingsFinding(path: string): Finding {
  const name = "your settings";
  if (existsSync(path)) return folder(name, path, { othersMayLook: true });
  const text = canWrite(path) ? `${path} (there is none)` : `${path} (there is none, and you can't make it)`;
  return { name, state: "ok", text };
}

function folder(name: string, path: string, o: { othersMayLook: boolean }): Finding {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) {
    if (canWrite(path)) return { name, state: "ok", text: `${path} (created when it is needed)` };
    const parent = nearestThatExists(dirname(path));
    return {
      name,
      state: "bad",
      text: `${path} can't be created`,
      advice: `make ${parent} writable for you`,
    };
  }
  const mode = (stats.mode & 0o777).toString(8);
  const text = `${path} (mode ${mode})`;
  if (!stats.isDirectory())
    return { name, state: "bad", text, advice: "expected a folder here: move the file away" };
  if (stats.uid !== thisUser().uid) {
    return {
      name,
      state: "bad",
      text: `${text} belongs to user ${stats.uid}`,
      advice: "make yourself its owner (chown)",
    };
  }
  const open = o.othersMayLook ? stats.mode & 0o022 : stats.mode & 0o077;
  if (open !== 0) {
    return { name, state: "bad", text: `${text} is open to others`, advice: `chmod 700 ${path}` };
  }
  if (!canWrite(path)) return { name, state: "bad", text, advice: "make it writable for you" };
  return { name, state: "ok", text };
}

/** The file with keys for runs that are not started from a shell. */
function keys(io: Io): Finding {
  const path = join(userPaths(io.env).configDir, "env");
  const stats = lstatSync(path, { throwIfNoEntry: false });
  const name = "file of keys";
  if (stats === undefined) return { name, state: "ok", text: `${path} (there is none)` };
  if ((stats.mode & 0o077) === 0) return { name, state: "ok", text: path };
  return { name, state: "bad", text: `${path} can be read by others`, advice: `chmod 600 ${path}` };
}

async function leftRunning(io: Io): Promise<Finding> {
  const left = await leftovers(io.env);
  const name = "programs left running";
  if (left.length === 0) return { name, state: "ok", text: "none" };
  const list = left.map(({ pids, argv }) => `${pids.join(",")} (${argv.join(" ")})`).join("; ");
  return {
    name,
    state: "bad",
    text: `${plural(left.length, "program")} of an rnix that has died: ${list}`,
    advice: "the daemon ends them when it starts; run rnix doctor again to check",
  };
}

function daemon({ pid, socket, log }: DaemonStatus): Finding {
  return { name: "daemon", state: "ok", text: `PID ${pid}, ${socket}, log ${log}` };
}

/** Child processes of the daemon without the mark of a run. */
function strays({ strays }: DaemonStatus): Finding {
  const name = "programs of no known run";
  if (strays.length === 0) return { name, state: "ok", text: "none" };
  return {
    name,
    state: "bad",
    text: strays.map(({ pid, command }) => `${pid} (${command})`).join("; "),
    advice:
      "they are ended with the last program that could have left them, at the latest by rnix daemon stop",
  };
}

/** Covers the user's init.yaml and those of all projects: one daemon runs them all. */
function init({ init, init_problems }: DaemonStatus): Finding {
  const name = "init.yaml";
  const failed = init.filter(({ state }) => state === "failed");
  const wrong = [
    ...init_problems.map(({ path, message }) => `${path}: ${message}`),
    ...failed.map(({ type, name, error }) => `${type} ${name}: ${error ?? "failed"}`),
  ];
  if (wrong.length > 0) {
    return { name, state: "bad", text: wrong.join("; "), advice: "rnix daemon status shows all of it" };
  }
  const running = init.filter(({ state }) => state === "running").length;
  const text = init.length === 0 ? "it keeps nothing running" : `${running} of ${init.length} running`;
  return { name, state: "ok", text };
}

async function providers(io: Io): Promise<Finding> {
  return withWire(io, async (wire) => {
    const { providers, diagnostics } = await wire.request("list_providers", project(io));
    const usable = providers.filter((provider) => provider.usable).map(({ name }) => name);
    const chosen = providers.find((provider) => provider.chosen);
    const [broken] = diagnostics;
    if (broken !== undefined) {
      const advice = broken.path === "" ? "rnix providers shows the details" : `correct ${broken.path}`;
      return { name: "providers", state: "bad", text: broken.message, advice };
    }
    if (chosen === undefined) {
      return {
        name: "providers",
        state: "bad",
        text: "none can be used here",
        advice:
          "rnix setup, or export ANTHROPIC_API_KEY=… or OPENAI_API_KEY=…; rnix providers shows the details, rnix demo needs no key",
      };
    }
    const text = `${chosen.name} (${chosen.because}) is the default; usable: ${usable.join(", ")}`;
    return { name: "providers", state: "ok", text };
  });
}

async function schedules(io: Io): Promise<Finding[]> {
  try {
    const { scheduleFindings } = await import("../cron/doctor.ts");
    return await scheduleFindings(io);
  } catch (error) {
    return [{ name: "schedules", state: "bad", text: messageOf(error) }];
  }
}

/** What a program has shown that ran in one. */
async function sandbox(io: Io): Promise<Finding> {
  const { probeSandbox } = await import("../../sandbox/sandbox.ts");
  const found = await probeSandbox(environment(io));
  const name = "sandbox";
  if (found.works)
    return { name, state: "ok", text: `${found.mechanism} (${found.program}); --sandbox auto uses it` };
  const text = found.lesser ? `only by ${found.lesser.mechanism}, which leaves ways out` : "none";
  return { name, state: "note", text: `${text}: ${found.why}`, advice: found.advice };
}

/** Where the limits of programs come from. */
async function limits(): Promise<Finding> {
  const { groupMechanism } = await import("../../os/program-group.ts");
  const name = "limits";
  const { how, processes, memory } = groupMechanism() ?? {};
  const kinds = [...(processes ? ["processes"] : []), ...(memory ? ["memory"] : [])];
  if (kinds.length === 2) return { name, state: "ok", text: `${kinds.join(" and ")} of programs, by ${how}` };
  const isRoot = process.getuid?.() === 0;
  const left = isRoot ? "" : "processes, counted with all of yours; ";
  return {
    name,
    state: "note",
    text: how
      ? `only ${kinds.join()}, by ${how}`
      : `${left}${isRoot ? "neither processes nor memory" : "memory is not limited"}`,
    advice:
      "A control group needs a delegated cgroup v2, as `systemd-run --user --scope rnix daemon start` gives.",
  };
}

/** A check that fails to run is a finding itself, and the other checks still run. */
async function attempt(name: string, check: () => Promise<Finding>): Promise<Finding> {
  try {
    return await check();
  } catch (error) {
    return { name, state: "bad", text: messageOf(error) };
  }
}

function nearestThatExists(path: string): string {
  return existsSync(path) ? path : nearestThatExists(dirname(path));
}
