/** The event triggers of one project's jobs: watched files, idle time and hooks, while their jobs are enabled. */

import type { LedgerRow } from "../plugin/index.ts";
import { isScheduled, type StoredJob } from "./job.ts";
import type { ProjectPorts } from "./job-review.ts";
import type { EventSource } from "./ports.ts";

interface TriggersPorts extends Pick<ProjectPorts, "listen" | "log" | "project"> {
  /** Resolves when the row is durable; false: the event had its row already. */
  accept(jobId: string, more: Partial<LedgerRow>): Promise<boolean>;
  isLive(jobId: string): boolean;
}

interface Listening {
  key: string;
  source: EventSource;
}

/** Opens what each enabled job waits for, and closes it when the job is disabled, changed or removed. */
export class Triggers {
  readonly #ports: TriggersPorts;
  readonly #open = new Map<string, Listening>();

  constructor(ports: TriggersPorts) {
    this.#ports = ports;
  }

  /** Adapts to the jobs as they are now. A source that can't be opened is logged, and tried again at the next change. */
  update(jobs: readonly StoredJob[]): void {
    const waiting = jobs.filter((job) => isScheduled(job) && EVENTS.some((name) => name in job.trigger));
    const wanted = new Map(waiting.map((job) => [job.id, job]));
    for (const [id, { key, source }] of this.#open) {
      const job = wanted.get(id);
      if (job && keyOf(job) === key) continue;
      void source.close();
      this.#open.delete(id);
    }
    const { listen, accept, isLive, log, project } = this.#ports;
    for (const job of listen ? wanted.values() : []) {
      if (this.#open.has(job.id)) continue;
      try {
        const source = listen?.(job, project, {
          accept: (more) => accept(job.id, { ...more, queued: true }),
          isLive: () => isLive(job.id),
        });
        if (source) this.#open.set(job.id, { key: keyOf(job), source });
      } catch (thrown) {
        log("warn", `job ${job.name}`, `its trigger can't be watched: ${String(thrown)}`);
      }
    }
  }

  /** A run of the job has ended: what it changed is no event. null: not all of it is known. */
  async ranOver(jobId: string, files: readonly string[] | null): Promise<void> {
    await this.#open.get(jobId)?.source.ranOver?.(files);
  }

  /** Does work of the job: the files that change meanwhile are no event of it. */
  during<T>(jobId: string, work: () => Promise<T>): Promise<T> {
    const source = this.#open.get(jobId)?.source;
    return source?.during ? source.during(work) : work();
  }

  async close(): Promise<void> {
    const closing = [...this.#open.values()].map(({ source }) => source.close());
    this.#open.clear();
    await Promise.all(closing);
  }
}

const EVENTS = ["on_change", "on_idle", "on_hook"];

function keyOf({ trigger, name }: StoredJob): string {
  return JSON.stringify([name, trigger]);
}
