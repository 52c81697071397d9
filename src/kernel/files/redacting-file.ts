/** A model's file that redacts API keys. */

import type { Data, FileStat, VFSFile } from "../../plugin/index.ts";
import type { Secrets } from "../process/secrets.ts";

/** Redacts the keys of its driver in answers and errors, whether the provider or the driver has put them there. */
export class RedactingFile implements VFSFile {
  readonly #file: VFSFile;
  readonly #secrets: Secrets;

  constructor(file: VFSFile, secrets: Secrets) {
    this.#file = file;
    this.#secrets = secrets;
  }

  write(data: Data, signal: AbortSignal): Promise<void> {
    return this.#hiding(() => this.#file.write(data, signal));
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    try {
      const data = await this.#file.read(max, signal);
      return typeof data === "string" ? this.#secrets.hide(data) : data;
    } catch (thrown) {
      throw this.#secrets.hideIn(thrown);
    }
  }

  close(): Promise<void> {
    return this.#hiding(() => this.#file.close());
  }

  stat(): Promise<FileStat> {
    return this.#hiding(() => this.#file.stat());
  }

  async #hiding<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      throw this.#secrets.hideIn(thrown);
    }
  }
}
