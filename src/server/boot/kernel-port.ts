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

/** The kernel's events that a listener may handle. */
interface KernelListener extends Partial<KernelCallbacks> {
  /** A message has come for a suspended run that waits for one. */
  onMail?(uuid: string): void;
  /** The programs of dead kernels were ended again. */
  onSweep?(): void;
}

/**
 * Passes the kernel's events to parts that are built after it. Listeners are called in the order of their registration.
 */
export class KernelEvents implements Required<KernelListener> {
  readonly #listeners: KernelListener[] = [];

  add(listener: KernelListener): void {
    this.#listeners.push(listener);
  }

  onSpawn(...args: Parameters<KernelCallbacks["onSpawn"]>): void {
    for (const listener of this.#listeners) listener.onSpawn?.(...args);
  }

  onStep(...args: Parameters<KernelCallbacks["onStep"]>): void {
    for (const listener of this.#listeners) listener.onStep?.(...args);
  }

  onComplete(...args: Parameters<KernelCallbacks["onComplete"]>): void {
    for (const listener of this.#listeners) listener.onComplete?.(...args);
  }

  onError(...args: Parameters<KernelCallbacks["onError"]>): void {
    for (const listener of this.#listeners) listener.onError?.(...args);
  }

  onAnswer(...args: Parameters<Required<KernelCallbacks>["onAnswer"]>): void {
    for (const listener of this.#listeners) listener.onAnswer?.(...args);
  }

  onUsage(...args: Parameters<Required<KernelCallbacks>["onUsage"]>): void {
    for (const listener of this.#listeners) listener.onUsage?.(...args);
  }

  onCall(...args: Parameters<Required<KernelCallbacks>["onCall"]>): void {
    for (const listener of this.#listeners) listener.onCall?.(...args);
  }

  onMail(uuid: string): void {
    for (const listener of this.#listeners) listener.onMail?.(uuid);
  }

  onSweep(): void {
    for (const listener of this.#listeners) listener.onSweep?.();
  }
}
