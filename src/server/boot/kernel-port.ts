/** Connects the kernel with the parts of the server that are built before it and after it. */

import type { Kernel } from "../../kernel/kernel.ts";
import type { KernelCallbacks } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";

/** The kernel for parts that the kernel itself needs, so that they are built before it. */
export class KernelPort {
  #kernel: Kernel | undefined;

  connect(kernel: Kernel): void {
    this.#kernel = kernel;
  }

  get kernel(): Kernel {
    if (this.#kernel) return this.#kernel;
    throw new SyscallError("INTERNAL", "The kernel was used before boot had built it.");
  }
}

/** What each event brings. `onMail`: a message has come for a suspended run. `onSweep`: programs of dead kernels were ended. */
type EventArguments = {
  [Event in keyof KernelCallbacks]-?: Parameters<NonNullable<KernelCallbacks[Event]>>;
} & { onMail: [uuid: string]; onSweep: [] };

type KernelListener = {
  [Event in keyof EventArguments]?: (...args: EventArguments[Event]) => void;
};

/**
 * Passes the kernel's events to parts that are built after it. Listeners are called in the order of their registration.
 */
export class KernelEvents implements Required<KernelListener> {
  readonly #listeners: KernelListener[] = [];
  readonly onSpawn = this.#passing("onSpawn");
  readonly onStep = this.#passing("onStep");
  readonly onComplete = this.#passing("onComplete");
  readonly onError = this.#passing("onError");
  readonly onAnswer = this.#passing("onAnswer");
  readonly onUsage = this.#passing("onUsage");
  readonly onCall = this.#passing("onCall");
  readonly onMail = this.#passing("onMail");
  readonly onSweep = this.#passing("onSweep");

  add(listener: KernelListener): void {
    this.#listeners.push(listener);
  }

  #passing<Event extends keyof EventArguments>(event: Event) {
    return (...args: EventArguments[Event]): void => {
      for (const listener of this.#listeners) listener[event]?.(...args);
    };
  }
}
