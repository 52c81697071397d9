/** Gives the kernel to parts that are built before it. */

import type { Kernel } from "../../kernel/kernel.ts";
import { SyscallError } from "../../plugin/index.ts";

/** The kernel for parts that the kernel itself needs, so that they are built before it. */
export class KernelPort {
  #kernel: Kernel | undefined;

  connect(kernel: Kernel): void {
    this.#kernel = kernel;
  }

  /** Fails with INTERNAL before the kernel is connected. */
  get kernel(): Kernel {
    if (this.#kernel) return this.#kernel;
    throw new SyscallError("INTERNAL", "The kernel was used before boot had built it.");
  }
}
