/** Loaded before each test file (bunfig.toml): the default timeout of a test, longer than any waits. */

import { setDefaultTimeout } from "bun:test";

setDefaultTimeout(120_000);
