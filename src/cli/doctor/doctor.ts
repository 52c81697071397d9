/** The checks of `rnix doctor`. */

import { existsSync, lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { homeNotice, thisUser, userPaths } from "../../config/environment/paths.ts";
import { canWrite } from "../../config/files/file.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { DaemonStatus } from "../../protocol/methods.ts";
import { leftovers, projectOf } from "../../server/offline-commands.ts";
import { commit, version } from "../../version.ts";
import { environment, type Io, project, withWire } from "../io.ts";
import { plural } from "../output/format.ts";
import { bad, type Finding, note, ok } from "./finding.ts";

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
    return [bad("daemon", messageOf(error))];
  }
  return [
    ok("daemon", `PID ${status.pid}, ${status.socket}, log ${status.log}`),
    strays(status),
    init(status),
    await attempt("providers", () => providers(io)),
    ...(await schedules(io)),
  ];
}

function binary(): Finding {
  const text = `rnix ${version} (${commit}), ${process.platform} ${process.arch}, ${process.execPath}`;
  if (process.platform === "linux" || process.platform === "darwin") return ok("binary", text);
  return bad("binary", text, "this system is not supported; on Windows use WSL");
}

function folders(io: Io): Finding[] {
  const user = userPaths(io.env);
  const { socket, dataDir, configDir } = user;
  const { dataDir: runs } = projectOf({ cwd: io.cwd, env: environment(io) });
  const notice = homeNotice(user);
  return [
    folder("socket folder", dirname(socket), { othersMayLook: false }),
    notice === undefined ? folder("your data", dataDir) : note("your data", notice),
    settingsFinding("your settings", configDir),
    ...(runs === dataDir ? [] : [folder("runs of this project", runs)]),
  ];
}

/** Rnix only reads the configuration: without its folder, the defaults apply. */
function settingsFinding(name: string, path: string): Finding {
  if (existsSync(path)) return folder(name, path);
  return ok(name, `${path} (there is none${canWrite(path) ? "" : ", and you can't make it"})`);
}

function folder(name: string, path: string, { othersMayLook = true } = {}): Finding {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) {
    if (canWrite(path)) return ok(name, `${path} (created when it is needed)`);
    const parent = nearestThatExists(dirname(path));
    return bad(name, `${path} can't be created`, `make ${parent} writable for you`);
  }
  const text = `${path} (mode ${(stats.mode & 0o777).toString(8)})`;
  if (!stats.isDirectory()) return bad(name, text, "expected a folder here: move the file away");
  if (stats.uid !== thisUser().uid)
    return bad(name, `${text} belongs to user ${stats.uid}`, "make yourself its owner (chown)");
  const open = othersMayLook ? stats.mode & 0o022 : stats.mode & 0o077;
  if (open !== 0) return bad(name, `${text} is open to others`, `chmod 700 ${path}`);
  return canWrite(path) ? ok(name, text) : bad(name, text, "make it writable for you");
}

/** The file with keys for runs that are not started from a shell. */
function keys(io: Io): Finding {
  const path = join(userPaths(io.env).configDir, "env");
  const stats = lstatSync(path, { throwIfNoEntry: false });
  const name = "file of keys";
  if (stats === undefined) return ok(name, `${path} (there is none)`);
  if ((stats.mode & 0o077) === 0) return ok(name, path);
  return bad(name, `${path} can be read by others`, `chmod 600 ${path}`);
}

async function leftRunning(io: Io): Promise<Finding> {
  const left = await leftovers(io.env);
  const name = "programs left running";
  if (left.length === 0) return ok(name, "none");
  const list = left.map(({ pids, argv }) => `${pids.join(",")} (${argv.join(" ")})`).join("; ");
  const text = `${plural(left.length, "program")} of an rnix that has died: ${list}`;
  return bad(name, text, "the daemon ends them when it starts; run rnix doctor again to check");
}

/** Child processes of the daemon without the mark of a run. */
function strays({ strays }: DaemonStatus): Finding {
  const name = "programs of no known run";
  if (strays.length === 0) return ok(name, "none");
  const list = strays.map(({ pid, command }) => `${pid} (${command})`).join("; ");
  const advice =
    "they are ended with the last program that could have left them, at the latest by rnix daemon stop";
  return bad(name, list, advice);
}

/** Covers the user's init.yaml and those of all projects: one daemon runs them all. */
function init({ init, init_problems }: DaemonStatus): Finding {
  const failed = init.filter(({ state }) => state === "failed");
  const wrong = [
    ...init_problems.map(({ path, message }) => `${path}: ${message}`),
    ...failed.map(({ type, name, error }) => `${type} ${name}: ${error ?? "failed"}`),
  ];
  if (wrong.length > 0) return bad("init.yaml", wrong.join("; "), "rnix daemon status shows all of it");
  const running = init.filter(({ state }) => state === "running").length;
  return ok(
    "init.yaml",
    init.length === 0 ? "it keeps nothing running" : `${running} of ${init.length} running`,
  );
}

async function providers(io: Io): Promise<Finding> {
  const { providers, diagnostics } = await withWire(io, (wire) =>
    wire.request("list_providers", project(io)),
  );
  const usable = providers.filter((provider) => provider.usable).map(({ name }) => name);
  const chosen = providers.find((provider) => provider.chosen);
  const [broken] = diagnostics;
  if (broken !== undefined) {
    const advice = broken.path === "" ? "rnix providers shows the details" : `correct ${broken.path}`;
    return bad("providers", broken.message, advice);
  }
  if (chosen !== undefined)
    return ok("providers", `${chosen.name} (${chosen.because}) is the default; usable: ${usable.join(", ")}`);
  const advice =
    "rnix setup, or export ANTHROPIC_API_KEY=… or OPENAI_API_KEY=…; rnix providers shows the details, rnix demo needs no key";
  return bad("providers", "none can be used here", advice);
}

async function schedules(io: Io): Promise<Finding[]> {
  try {
    const { scheduleFindings } = await import("../cron/doctor.ts");
    return await scheduleFindings(io);
  } catch (error) {
    return [bad("schedules", messageOf(error))];
  }
}

/** What a program has shown that ran in one. */
async function sandbox(io: Io): Promise<Finding> {
  const { probeSandbox } = await import("../../sandbox/sandbox.ts");
  const found = await probeSandbox(environment(io));
  if (found.works) return ok("sandbox", `${found.mechanism} (${found.program}); --sandbox auto uses it`);
  const text = found.lesser ? `only by ${found.lesser.mechanism}, which leaves ways out` : "none";
  return note("sandbox", `${text}: ${found.why}`, found.advice);
}

/** Where the limits of programs come from. */
async function limits(): Promise<Finding> {
  const { groupMechanism } = await import("../../os/program-group.ts");
  const { how, processes, memory } = groupMechanism() ?? {};
  const kinds = [...(processes ? ["processes"] : []), ...(memory ? ["memory"] : [])];
  if (kinds.length === 2) return ok("limits", `${kinds.join(" and ")} of programs, by ${how}`);
  const none =
    process.getuid?.() === 0
      ? "neither processes nor memory"
      : "processes, counted with all of yours; memory is not limited";
  return note(
    "limits",
    how ? `only ${kinds.join()}, by ${how}` : none,
    "A control group needs a delegated cgroup v2, as `systemd-run --user --scope rnix daemon start` gives.",
  );
}

/** A check that fails to run is a finding itself, and the other checks still run. */
async function attempt(name: string, check: () => Promise<Finding>): Promise<Finding> {
  try {
    return await check();
  } catch (error) {
    return bad(name, messageOf(error));
  }
}

function nearestThatExists(path: string): string {
  return existsSync(path) ? path : nearestThatExists(dirname(path));
}
