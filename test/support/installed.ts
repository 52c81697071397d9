/** Whether programs that a test needs are installed. */

/** Set by the checks of the repository, which install them: a missing program then fails instead of skipping. */
const ALL_PARTS = process.env.RNIX_ALL_PARTS === "1";

/** False, with a message, where one is missing: the test is then skipped. */
export function installed(...programs: string[]): boolean {
  const missing = programs.filter((name) => Bun.which(name) === null);
  if (missing.length === 0) return true;
  const message = `NOT TRIED: ${missing.join(", ")} not installed`;
  if (ALL_PARTS) throw new Error(message);
  process.stderr.write(`${message}\n`);
  return false;
}
