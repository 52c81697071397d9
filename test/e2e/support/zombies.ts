/** The ended children of a process that nobody has waited for, one line each. */
export function zombiesOf(parent: number | null): string[] {
  const { stdout } = Bun.spawnSync(["ps", "-o", "pid=,stat=,comm=", "--ppid", String(parent)]);
  return stdout
    .toString()
    .split("\n")
    .filter((line) => / Z/.test(line));
}
