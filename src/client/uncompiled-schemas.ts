import { config } from "zod";

/**
 * Loaded before any schema is made: compiling each pays for who checks with it hundreds of times, not within one
 * command. A module of its own, since a dynamic import of "zod" itself would keep all of it in the executable.
 */
config({ jitless: true });
