/** The open model device of a process. */

import type { Data, ImageRef } from "../../plugin/index.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import type { Secrets } from "../process/secrets.ts";
import type { ModelDevice } from "./model-gate.ts";

/** The open model device of one process, as the gate uses it. */
export class ModelDeviceFile implements ModelDevice {
  reads = 0;
  readBytes = 0;
  readonly #ports: { files: FileSystem };
  readonly #proc: Process;
  readonly #fd: number | undefined;

  /** `fd`: another open file than the process's own. */
  constructor(ports: { files: FileSystem }, proc: Process, fd?: number) {
    this.#ports = ports;
    this.#proc = proc;
    this.#fd = fd;
  }

  write(data: string, signal: AbortSignal): Promise<void> {
    return this.#ports.files.write(this.#proc, this.#fd ?? this.#proc.model.fd, data, signal);
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const data = await this.#ports.files.readQuietly(
      this.#proc,
      this.#fd ?? this.#proc.model.fd,
      max,
      signal,
    );
    this.reads++;
    this.readBytes += data.length;
    return data;
  }

  get secrets(): Secrets {
    return this.#proc.secrets;
  }

  async readImage(image: ImageRef): Promise<string> {
    return Buffer.from(await this.#proc.record.readBlob(image)).toString("base64");
  }
}
