/** The findings of `rnix doctor` about schedules: whether jobs will really run, now and after a reboot. */

import { existsSync } from "node:fs";
import { localZone } from "../../lib/time-zone.ts";
import { resultOf } from "../../os/user-programs.ts";
import type { JobInfo } from "../../plugin/index.ts";
import { bad, type Finding, note, ok } from "../doctor/finding.ts";
import { environment, type Io, project, withWire } from "../io.ts";
import { oneLine, plural } from "../output/format.ts";
import { cronRequest } from "./call.ts";
import { isEnabled, lingers, serviceOf } from "./service.ts";
import { distance } from "./when.ts";

/** Names in one finding. */
const MAX_NAMES = 5;
const REASON_WIDTH = 120;
/** Projects whose providers are looked at. */
const MAX_PROJECTS = 20;
const CLOCK_MS = 3_000;

export async function scheduleFindings(io: Io): Promise<Finding[]> {
  const jobs = await withWire(io, (wire) =>
    cronRequest<JobInfo[]>(wire, project(io), { op: "list", all_projects: true }),
  );
  if (jobs.length === 0) return [ok("schedules", "no jobs")];
  const enabled = jobs.filter(({ state }) => state === "enabled");
  return [
    overview(jobs, enabled),
    ...(enabled.length === 0 ? [] : [await keyFinding(io, enabled), await reboot(io), await clock(io)]),
  ];
}

function overview(jobs: readonly JobInfo[], enabled: readonly JobInfo[]): Finding {
  const stuck = jobs.filter(({ state }) => state === "blocked" || state === "paused");
  if (stuck.length > 0) {
    const shown = stuck.slice(0, MAX_NAMES).map((job) => {
      return `${job.name} is ${job.state} (${oneLine(job.reason ?? "no reason", REASON_WIDTH)})`;
    });
    const more = stuck.length > MAX_NAMES ? `; and ${stuck.length - MAX_NAMES} more` : "";
    const advice =
      "rnix cron list --all-projects shows them; a blocked job runs again when the cause is gone, a paused one after rnix cron enable JOB";
    return bad("schedules", `${shown.join("; ")}${more}`, advice);
  }
  const [next] = enabled
    .filter(({ next_at }) => next_at !== null)
    .toSorted((a, b) => (a.next_at ?? "").localeCompare(b.next_at ?? ""));
  const when = next?.next_at ? `; next ${next.name} ${distance(next.next_at, Date.now())}` : "";
  return ok("schedules", `${plural(enabled.length, "job")} of ${jobs.length} enabled${when}`);
}

/** A job has no shell: its key comes from the user's file, or from api_key_command. */
async function keyFinding(io: Io, jobs: readonly JobInfo[]): Promise<Finding> {
  const wrong: string[] = [];
  const projects = [...new Set(jobs.map((job) => job.project))].slice(0, MAX_PROJECTS);
  await withWire(io, async (wire) => {
    for (const cwd of projects) {
      const { providers } = await wire.request("list_providers", { cwd, env: withoutKeys(io) });
      const usable = new Set(providers.filter((one) => one.usable).map((one) => one.name));
      for (const job of jobs.filter((one) => one.project === cwd)) {
        const { provider } = job.run;
        const isThere = typeof provider === "string" ? usable.has(provider) : usable.size > 0;
        if (!isThere) wrong.push(`${job.name} (${typeof provider === "string" ? provider : "no provider"})`);
      }
    }
  });
  if (wrong.length === 0) return ok("keys of jobs", "found without a shell");
  const text = `none for ${wrong.slice(0, MAX_NAMES).join(", ")}${wrong.length > MAX_NAMES ? ", …" : ""}`;
  const advice = "write KEY=… into ~/.config/rnix/env (chmod 600), or set api_key_command in providers.yaml";
  return bad("keys of jobs", text, advice);
}

/** Where programs and files are found, and no key. */
function withoutKeys(io: Io): Record<string, string> {
  const names = /^(?:PATH|HOME|USER|LOGNAME|TMPDIR|XDG_.*)$/;
  return Object.fromEntries(Object.entries(environment(io)).filter(([name]) => names.test(name)));
}

async function reboot(io: Io): Promise<Finding> {
  const name = "schedules after a reboot";
  const service = serviceOf(io);
  if (service === null) return note(name, "start rnix daemon start --foreground with your service manager");
  const { path } = service;
  if (!existsSync(path)) return bad(name, "nothing starts the daemon", "rnix cron install");
  const enabled = await isEnabled(io, service);
  if (enabled === null)
    return note(name, `${path} is written, but no service manager answers here: it may not start`);
  if (!enabled) return bad(name, `${path} is not enabled`, "rnix cron install --yes");
  if (lingers(io) !== false) return ok(name, path);
  return bad(name, `${path} starts at your first login, not with the machine`, "loginctl enable-linger");
}

async function clock(io: Io): Promise<Finding> {
  const offset = -new Date().getTimezoneOffset();
  const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60].map((part) =>
    String(part).padStart(2, "0"),
  );
  const zone = `${localZone()} (UTC${offset < 0 ? "-" : "+"}${hours}:${minutes})`;
  const text = `${new Date().toISOString().slice(0, 19)}Z, zone ${zone}`;
  const argv = ["timedatectl", "show", "-p", "NTPSynchronized", "--value"];
  const asked = await resultOf(argv, { cwd: "/", env: io.env, timeoutMs: CLOCK_MS, maxBytes: 1024 });
  if (asked?.code !== 0 || asked.output !== "no") return ok("clock", text);
  return note("clock", `${text}; it is not synchronized: timedatectl shows why`);
}
