import { daemonMain } from "../../../src/server/main.ts";

/** The daemon alone, as `rnix daemon --internal` runs it. */
process.exit(await daemonMain({}));
