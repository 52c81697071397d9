/** The shells that tests type into. A missing one is installed where that is possible. */

const INSTALL_MS = 180_000;

/**
 * The path of a shell. Where it is missing, root installs Debian's package of that name; otherwise it prints which shell
 * is not tried, and why, and returns null.
 */
export function shellPath(name: string): string | null {
  const found = Bun.which(name);
  if (found !== null) return found;
  const why = install(name);
  const path = Bun.which(name);
  if (path === null) process.stderr.write(`NOT TRIED: the shell ${name} is not installed; ${why}\n`);
  return path;
}

function install(name: string): string {
  const apt = Bun.which("apt-get");
  if (apt === null) return "there is no apt-get to install it with";
  if (process.getuid?.() !== 0) return `only root can install it: sudo apt-get install ${name}`;
  // Another test may be installing just now.
  const options = ["-o", `DPkg::Lock::Timeout=${INSTALL_MS / 1000}`, "-o", "Acquire::Retries=1"];
  const run = (...args: string[]) =>
    Bun.spawnSync([apt, ...options, ...args], {
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
      stdout: "ignore",
      stderr: "pipe",
      timeout: INSTALL_MS,
    });
  run("update", "-qq");
  const { success, stderr } = run("install", "-y", "-qq", "--no-install-recommends", name);
  return success
    ? "installed"
    : `apt-get install ${name} failed: ${stderr.toString().trim().split("\n").at(-1)}`;
}
