/** Tells zod not to compile schemas: a short command uses each once. */

import { config } from "zod";

/** Loaded before any schema is made. A module of its own: a dynamic import of "zod" would put all of zod into the binary. */
config({ jitless: true });
