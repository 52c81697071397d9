/** A program that exchanges messages with this process. */

/** A program with a channel, in both directions, to this process. */
export interface ProgramChannel {
  /** Throws what can't cross. */
  send(message: unknown): void;
  /** Ends it and its descendants at once. */
  kill(): void;
  /** Resolves when it has ended. Never rejects. */
  ended: Promise<{ code: number | null; signal: string | null }>;
  /** It keeps this process running, or does not. */
  hold(holds: boolean): void;
  /** Bytes that it has in memory; null where that is not known. */
  memory(): number | null;
}

/** Starts this program again, for a plugin; `argv` is the whole command line. `confined`: what it starts in a PID namespace. */
export type StartProgram = (
  argv: string[],
  onMessage: (message: unknown) => void,
  confined?: readonly string[],
) => ProgramChannel;

/** The hidden mode of the binary that is the process of a plugin. */
export const PLUGIN_PROGRAM = "__plugin";
