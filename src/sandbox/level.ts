/** The sandbox of a run by its level and mechanism, in code and in records. */

/** What a confined program may write: the project and a private temporary folder, or only the latter. */
export type SandboxLevel = "project" | "read-only";

/** The sandbox of a run: what it allows, and how. */
export interface Sandbox {
  level: SandboxLevel;
  mechanism: "bubblewrap" | "landlock" | "seatbelt";
  /** Absolute path of bubblewrap or sandbox-exec; for Landlock, of Rnix. */
  program: string;
}

/** Whether it keeps all that a level promises. The others leave ways out, which docs/sandbox.md names. */
export function isWhole({ mechanism }: Pick<Sandbox, "mechanism">): boolean {
  return mechanism === "bubblewrap";
}

/** As the receipt names it. */
export function sandboxText({ level, mechanism }: Pick<Sandbox, "level" | "mechanism">): string {
  return `${level} (${mechanism})`;
}

/** Whether its programs are in another PID namespace. */
export function hasNamespaces(sandbox: Pick<Sandbox, "mechanism"> | undefined): boolean {
  return sandbox?.mechanism === "bubblewrap";
}

/** Whether a recorded text names a sandbox that is required again. */
export function wasWhole(text: string): boolean {
  return text.endsWith("(bubblewrap)");
}

/** The level in a recorded text; null for a run without a sandbox. */
export function recordedLevel(text: string): SandboxLevel | null {
  const [level] = text.split(" ");
  return level === "project" || level === "read-only" ? level : null;
}

/** The level that allows less. */
export function stricter(one: SandboxLevel, other: SandboxLevel): SandboxLevel {
  return one === "read-only" ? one : other;
}

/** The temporary folder of a run's programs, in its record. */
export const TEMPORARY = "tmp";
