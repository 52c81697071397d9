/** Makes many ended runs of one. */

import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** `steps`: the folder with the records of one run; afterwards of `count` runs. */
export function copyRun(steps: string, count: number): void {
  const [uuid = ""] = readdirSync(steps);
  const files = readdirSync(join(steps, uuid))
    .filter((name) => statSync(join(steps, uuid, name)).isFile())
    .map((name) => ({ name, text: readFileSync(join(steps, uuid, name), "utf8") }));
  for (let pid = 2; pid <= count; pid++) {
    const other = Bun.randomUUIDv7();
    mkdirSync(join(steps, other));
    for (const { name, text } of files) {
      const own =
        name === "proc-info.json" ? JSON.stringify({ ...JSON.parse(text), uuid: other, pid }) : text;
      writeFileSync(join(steps, other, name), own);
    }
  }
}
