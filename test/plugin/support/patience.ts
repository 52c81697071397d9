/** The limits of a plugin with as much time as a busy machine needs: for a plugin to load, and to say that it lives. */
export const PATIENT = { loadMs: 60_000, aliveMs: 60_000 };
