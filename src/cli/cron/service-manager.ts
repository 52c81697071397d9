/** Calls of the service manager: systemctl, loginctl, launchctl. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";
import type { Service } from "./service.ts";

/** A service manager that takes longer is not waited for. */
const CALL_MS = 20_000;
const MAX_OUTPUT = 64 * 1024;
const LINGER = "/var/lib/systemd/linger";

async function call(io: Io, argv: string[]) {
  const { resultOf } = await import("../../os/user-programs.ts");
  return resultOf(argv, { cwd: "/", env: io.env, timeoutMs: CALL_MS, maxBytes: MAX_OUTPUT });
}

/** Registers and starts the service. `beforeStart`: when it is registered. Returns what the user has to do instead. */
export async function enableService(
  io: Io,
  service: Service,
  beforeStart: () => Promise<void>,
): Promise<string[]> {
  const steps =
    service.kind === "systemd"
      ? [
          ["systemctl", "--user", "daemon-reload"],
          ["systemctl", "--user", "enable", service.name],
          ["systemctl", "--user", "restart", service.name],
        ]
      : [["launchctl", "bootstrap", `gui/${process.getuid?.() ?? 0}`, service.path]];
  const [start = []] = steps.slice(-1);
  const left = await notDone(io, steps.slice(0, -1));
  if (left.length > 0) return [...left, start.join(" ")];
  await beforeStart();
  return notDone(io, [start]);
}

export async function disableService(io: Io, service: Service): Promise<string[]> {
  const steps =
    service.kind === "systemd"
      ? [["systemctl", "--user", "disable", service.name]]
      : [["launchctl", "bootout", `gui/${process.getuid?.() ?? 0}/${service.name}`]];
  return notDone(io, steps);
}

async function notDone(io: Io, steps: string[][]): Promise<string[]> {
  const left: string[] = [];
  for (const [at, argv] of steps.entries()) {
    const made = await call(io, argv);
    if (made?.code === 0) continue;
    const why = made === null ? `${argv[0]} is not here` : made.output.split("\n")[0] || `exit ${made.code}`;
    left.push(...steps.slice(at).map((step, i) => `${step.join(" ")}${i === 0 ? `  (${why})` : ""}`));
    break;
  }
  return left;
}

/** Whether the user's services start with the machine, and not only at a login; null: unknown, or no systemd. */
export function lingers(io: Io): boolean | null {
  const user = io.env.USER ?? io.env.LOGNAME;
  if (process.platform !== "linux" || !existsSync("/run/systemd/system") || !user) return null;
  if (user.includes("/")) throw new SyscallError("INVALID", `USER: expected a user's name, got ${user}`);
  return existsSync(join(LINGER, user));
}

/** Whether the service manager starts it; null: it can't be asked. */
export async function isEnabled(io: Io, { kind, name }: Service): Promise<boolean | null> {
  if (kind === "launchd") {
    const listed = await call(io, ["launchctl", "print", `gui/${process.getuid?.() ?? 0}/${name}`]);
    return listed === null ? null : listed.code === 0;
  }
  const asked = await call(io, ["systemctl", "--user", "is-enabled", name]);
  if (asked === null || /Failed to connect|No medium/.test(asked.output)) return null;
  return asked.code === 0;
}
