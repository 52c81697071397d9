import { SyscallError } from "../plugin/index.ts";
import { withMessage } from "./error-detail.ts";

/** Shorter ones are nobody's key, and would take words out of what people read. */
const MIN_LENGTH = 8;
/** A key that changes all the time does not have all of them kept. */
const MAX_KEPT = 16;
const HIDDEN = "[key]";

/** The keys that a process's model was given, so that nothing of what comes back shows them. In memory alone. */
export class Secrets {
  #keys: string[] = [];
  #last: string | undefined;

  add(key: string): void {
    this.#last = key;
    if (key.length < MIN_LENGTH || this.#keys.includes(key)) return;
    this.#keys = [...this.#keys.slice(1 - MAX_KEPT), key];
  }

  /** The one that was given last. */
  get last(): string | undefined {
    return this.#last;
  }

  hide(text: string): string {
    return this.#keys.reduce(
      (shown, key) => (shown.includes(key) ? shown.replaceAll(key, HIDDEN) : shown),
      text,
    );
  }

  /** The same error, without what lies below it when it shows a key. */
  hideIn(thrown: unknown): unknown {
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    const clean = this.hide(text);
    if (clean === text) return thrown;
    if (!(thrown instanceof SyscallError)) return new SyscallError("DRIVER", clean);
    return withMessage(thrown, clean);
  }
}
