/** The list of projects that have jobs: `cron/projects.json` in the user's data folder. */

import { dirname, join } from "node:path";
import { z } from "zod";
import { makeFolder, parseDocument, readDocument, replaceDocument } from "../store/files/document.ts";
import { type FsPort, realFs } from "../store/files/fs-port.ts";
import { CRON } from "./cron-folder.ts";

export interface JobProject {
  id: string;
  dir: string;
  dataDir: string;
}

/** Whether its jobs can only be of this folder. A data folder elsewhere, such as the user's, is shared by several. */
export function hasOwnData({ dir, dataDir }: JobProject): boolean {
  return dataDir === join(dir, ".rnix", "data");
}

const Entry = z.object({ id: z.string(), dir: z.string(), data_dir: z.string() });
const List = z.lazy(() => z.object({ v: z.literal(1), projects: z.array(Entry) }));

/** Maximum projects; the file is read as a whole. */
const MAX_PROJECTS = 2000;

interface ProjectListPorts {
  fs?: FsPort;
  lock(path: string): Promise<{ release(): void }>;
}

/** The projects whose schedules the daemon runs. */
export class ProjectList {
  readonly #path: string;
  readonly #fs: FsPort;
  readonly #ports: ProjectListPorts;

  constructor(userDataDir: string, ports: ProjectListPorts) {
    this.#path = join(userDataDir, CRON, "projects.json");
    this.#fs = ports.fs ?? realFs;
    this.#ports = ports;
  }

  async read(): Promise<JobProject[]> {
    const found = await readDocument(this.#path, this.#fs);
    if (found === null) return [];
    return parseDocument(List, found.text, this.#path).projects.map(({ id, dir, data_dir }) => ({
      id,
      dir,
      dataDir: data_dir,
    }));
  }

  /** Adds the project in place of an earlier one with its data folder. */
  async add(project: JobProject): Promise<void> {
    const { dir, dataDir } = project;
    if ((await this.read()).some((one) => one.dataDir === dataDir && one.dir === dir)) return;
    makeFolder(dirname(this.#path), this.#fs);
    const lock = await this.#ports.lock(`${this.#path}.lock`);
    try {
      const others = (await this.read()).filter(({ dataDir }) => dataDir !== project.dataDir);
      const projects = [...others, project]
        .slice(-MAX_PROJECTS)
        .map(({ id, dir, dataDir }) => ({ id, dir, data_dir: dataDir }));
      await replaceDocument(this.#path, `${JSON.stringify({ v: 1, projects }, null, 2)}\n`, this.#fs);
    } finally {
      lock.release();
    }
  }
}
