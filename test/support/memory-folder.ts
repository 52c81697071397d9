import { existsSync } from "node:fs";

/** Where a sync costs nothing, on systems that have such a place: for tests that are long, and not about the disk. */
export const memoryFolder = existsSync("/dev/shm") ? "/dev/shm" : undefined;
