/** Checks one plugin for `rnix plugins check FILE`. */

import { readRegular } from "../../lib/regular-file.ts";
import type { DiskPorts } from "./disk-plugin.ts";
import type { StockPlugins } from "./embedded.ts";
import { PluginProcess } from "./plugin-process.ts";
import { asProblem, type CheckReport, declaredBy } from "./report.ts";
import { staticCheck } from "./static-check.ts";
import { type FileDigest, MAX_SOURCE_BYTES } from "./stock-files.ts";

/** `rnix plugins check FILE`: reads the plugin, then loads it if `mayRun` allows what was read. Reports all problems. */
export async function checkPlugin(
  name: string,
  file: string,
  mayRun: (files: readonly FileDigest[]) => boolean,
  stock: StockPlugins,
  ports: DiskPorts,
): Promise<CheckReport> {
  const { files, problems, code } = await staticCheck(file);
  const report: CheckReport = {
    name,
    file,
    ok: false,
    loaded: false,
    files: files.map(({ path }) => path),
    ...declaredBy({}),
    takes: [],
    problems: [...problems],
    warnings: [],
  };
  if (code === null) return report;
  if (!mayRun(files)) {
    if (!(await hasDefault(file))) report.problems.push({ file, message: NO_PLUGIN });
    return { ...report, ok: report.problems.length === 0 };
  }
  report.loaded = true;
  try {
    const worker = await PluginProcess.start({ name, entry: file, code, ...ports });
    Object.assign(report, declaredBy(worker.plugin));
    report.takes = await stock.takenBy(name, worker.plugin);
    report.warnings = [...worker.link.problems];
    await worker.end();
    // An error right after the import, such as in a timer, shows as a crash.
    if (worker.link.crash) report.problems.push(worker.link.crash);
    report.ok = report.problems.length === 0;
  } catch (thrown) {
    report.problems.push(asProblem(thrown));
  }
  return report;
}

const NO_PLUGIN =
  "It has no default export. Expected `export default defineTool({ … })` or `export default definePlugin({ … })`.";

/** Whether the file exports what a plugin is made of. Modules of CommonJS are not judged without running them. */
async function hasDefault(file: string): Promise<boolean> {
  const text = (await readRegular(file, MAX_SOURCE_BYTES))?.toString() ?? "";
  if (/\bexports\b/.test(text)) return true;
  return new Bun.Transpiler({ loader: "tsx" }).scan(text).exports.includes("default");
}
