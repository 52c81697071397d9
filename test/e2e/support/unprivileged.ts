import type { Machine } from "./machine.ts";

/** A user id without an entry in the system's list of users. */
const UID = 61_234;

/** Runs the machine's commands without privileges, because root can write everywhere. Returns the user id. */
export function dropPrivileges(machine: Machine): number {
  const uid = process.getuid?.() ?? 0;
  if (uid !== 0) return uid;
  const { success, stderr } = Bun.spawnSync(["chown", "-R", `${UID}:${UID}`, machine.root]);
  if (!success) throw new Error(`chown: ${stderr}`);
  machine.wrapper = ["setpriv", `--reuid=${UID}`, `--regid=${UID}`, "--clear-groups"];
  return UID;
}
