/** The environment variables that a daemon keeps: they describe the machine and hold no secret of the caller. */

const PLAIN = new Set(["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"]);
/** Read by the runtime at its start, for servers with a private certificate. */
const CERTIFICATES = new Set(["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"]);
/** The socket of the daemon that a command in a run connects to. */
const SOCKET = "RNIX_SOCKET";

/** Whether the daemon keeps this variable of the environment it was started with. */
export function isPlain(name: string): boolean {
  return PLAIN.has(name) || CERTIFICATES.has(name) || name === SOCKET || /^(?:XDG|LC)_/.test(name);
}

/** Whether rnix removes this variable from the environment that the system shows for its process. */
export function isHidden(name: string): boolean {
  return !isPlain(name) && !name.startsWith("RNIX_");
}
