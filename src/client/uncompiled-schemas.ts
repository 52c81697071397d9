/** Tells zod not to compile schemas: a short command uses each once. */

import { config } from "zod";

/**
 * Turns off zod's compilation of schemas, which one command does not repay. It is loaded before any schema is made. It
 * is a module of its own, because a dynamic import of "zod" would put all of zod into the executable.
 */
config({ jitless: true });
