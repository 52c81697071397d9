import { writeFileSync } from "node:fs";
import { until } from "../../support/until.ts";

/** The IDs that the namespace has: root's, and those of `dropPrivileges`. */
const IDS = "0 0 70000\n";

/**
 * A place where user namespaces are switched off, as by `sysctl user.max_user_namespaces=0`: a namespace of its own, which
 * has this setting. Root only. `wrapper`: what enters it.
 */
export async function withoutUserNamespaces(): Promise<{ wrapper: string[] } & Disposable> {
  const holder = Bun.spawn(["unshare", "--user", "--", "cat"], { stdin: "pipe", stdout: "pipe" });
  const wrapper = ["nsenter", `--user=/proc/${holder.pid}/ns/user`, "--"];
  holder.stdin.write("ready\n");
  await holder.stdout.getReader().read();
  for (const map of ["gid_map", "uid_map"]) writeFileSync(`/proc/${holder.pid}/${map}`, IDS);
  const off = [...wrapper, "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces"];
  await until(() => Bun.spawnSync(off).success, "the setting of the namespace");
  return { wrapper, [Symbol.dispose]: () => holder.kill() };
}
