/** The token of /metrics: a file of the user's that outlives the daemon. */

import { statSync } from "node:fs";
import { readText, writeAtomic } from "../../config/files/file.ts";
import { secret } from "./secret.ts";

/** A token that others could read, or that is damaged, is replaced. */
const TOKEN = /^[\w-]{43}$/;
const MODE_OF_OTHERS = 0o077;

/** Reads /metrics, and nothing else, until it is replaced. */
export class MetricsToken {
  readonly #file: string;
  #token: string | undefined;

  constructor(file: string) {
    this.#file = file;
  }

  /** Makes one at its first use. Fails if it can't be stored. */
  get(): string {
    this.#token ??= this.#stored() ?? this.replace();
    return this.#token;
  }

  /** Makes another one: the one before is refused from now on. */
  replace(): string {
    const token = secret();
    writeAtomic(this.#file, token);
    this.#token = token;
    return token;
  }

  /** The token, if one was made. */
  get known(): string | undefined {
    this.#token ??= this.#stored();
    return this.#token;
  }

  #stored(): string | undefined {
    const text = readText(this.#file)?.trim() ?? "";
    if (!TOKEN.test(text)) return undefined;
    return (statSync(this.#file).mode & MODE_OF_OTHERS) === 0 ? text : undefined;
  }
}
