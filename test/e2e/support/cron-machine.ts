/** A machine whose commands reach the service `schedule`. */

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { byInstant, Ledger } from "../../../src/cron/ledger.ts";
import type { AddedJob, JobRequest, LedgerRow } from "../../../src/plugin/index.ts";
import { until } from "../../support/until.ts";
import { Machine } from "./machine.ts";

/** A tool that passes calls to the service `schedule`. */
const JOBS = `
import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "Jobs",
  description: "Calls the service schedule.",
  needs: ["schedule"],
  input: { type: "object", properties: { call: { type: "string" }, with: {} }, required: ["call"] },
  async run(input, { schedule }) {
    return JSON.stringify(await schedule[input.call](input.with));
  },
});
`;

const SOON_MS = 1_000;
const LATE_MS = 30_000;

/** A machine with the tool, and a model whose key is in the user's file, where runs without a caller find it. */
export class CronMachine extends Machine {
  constructor() {
    super();
    this.write(join(this.configDir, "plugins", "jobs.ts"), JOBS);
  }

  async scripted(...args: Parameters<Machine["model"]>): Promise<Awaited<ReturnType<Machine["model"]>>> {
    const model = await this.model(...args);
    const { OPENAI_API_KEY: key = "", OPENAI_BASE_URL: url = "" } = this.env;
    chmodSync(this.write(join(this.configDir, "env"), `OPENAI_API_KEY=${key}\n`), 0o600);
    this.write(
      join(this.configDir, "providers.yaml"),
      `providers:\n  openai:\n    driver: openai\n    base_url: ${url}\n    default_model: m\n`,
    );
    for (const name of ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"])
      delete this.env[name];
    return model;
  }

  async schedule<T>(call: string, input?: unknown): Promise<T> {
    const { stdout, stderr, code } = await this.run(["call", "Jobs", JSON.stringify({ call, with: input })]);
    if (code !== 0) throw new Error(stderr);
    return JSON.parse(stdout);
  }

  add(job: Partial<JobRequest>): Promise<AddedJob> {
    return this.schedule("add", {
      name: "job",
      trigger: { every: "1s" },
      intent: "say hello",
      run: {},
      ...job,
    });
  }

  /** Adds a job for one instant: soon, and later where the machine is so busy that it was over when the job arrived. */
  async addOnce(job: Partial<JobRequest>): Promise<AddedJob> {
    for (let ms = SOON_MS; ; ms *= 2) {
      const at = new Date(Date.now() + ms).toISOString();
      try {
        return await this.add({ ...job, trigger: { at } });
      } catch (error) {
        if (Date.now() < Date.parse(at) || ms > LATE_MS) throw error;
      }
    }
  }

  /** Waits until the ledger's rows are as wanted. It starts a daemon, then reads along on disk. */
  async rows(isEnough: (rows: LedgerRow[]) => boolean): Promise<LedgerRow[]> {
    let rows = await this.schedule<LedgerRow[]>("history", { limit: 100 });
    if (isEnough(rows)) return rows;
    await until(
      async () => {
        rows = await ledgerOf(this.project);
        return isEnough(rows);
      },
      () => `the ledger has only ${JSON.stringify(rows, null, 1)}`,
    );
    return rows;
  }
}

/** The rows of a project's jobs as they are on disk, in the order of \`cron history\`. */
export async function ledgerOf(project: string): Promise<LedgerRow[]> {
  const ledger = new Ledger(join(project, ".rnix", "data"));
  await ledger.load();
  return ledger.all().sort(byInstant);
}
