/* Which variables say where things are on this machine, and hold nothing of the caller's. */

/** Where things are on this machine, and how its user likes them: what says nothing of whoever set it. */
const PLAIN = new Set(["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"]);
/** Read by the runtime as it starts, for servers with a certificate of one's own. */
const CERTIFICATES = new Set(["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"]);
/** Which daemon a command in a run finds. */
const SOCKET = "RNIX_SOCKET";

/** Whether a variable is one of those that the daemon keeps of whoever happened to start it. */
export function isPlain(name: string): boolean {
  return PLAIN.has(name) || CERTIFICATES.has(name) || name === SOCKET || /^(?:XDG|LC)_/.test(name);
}

/** Whether rnix need not show the system its value: all but what is plain, and what tells whose program it is. */
export function isHidden(name: string): boolean {
  return !isPlain(name) && !name.startsWith("RNIX_");
}
