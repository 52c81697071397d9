import { type FsPort, realFs } from "../../src/store/files/fs-port.ts";

/** A disk whose `fdatasync` waits while it is held. */
export class HeldDisk {
  #isHeld = false;
  #wake: (() => void) | undefined;

  readonly fs: FsPort = {
    ...realFs,
    fdatasync: async (fd) => {
      if (this.#isHeld) await new Promise<void>((resolve) => (this.#wake = resolve));
      await realFs.fdatasync(fd);
    },
  };

  hold(): void {
    this.#isHeld = true;
  }

  /** Whether a call waits. */
  get isWaiting(): boolean {
    return this.#wake !== undefined;
  }

  release(): void {
    this.#isHeld = false;
    this.#wake?.();
  }
}
