/** Gives the terminal back as it was: at the end, on signals, on a crash, while the command is stopped, to an editor. */

import type { Terminal } from "../io.ts";

/** A part that changed the terminal, such as the screen or the keyboard. */
interface Guarded {
  /** Undoes the changes. Returns what is to be written. Called at most once before the next `renew`. */
  restore(): string;
  renew(): void;
}

/** Signals that end the command unless another part of it handles them. */
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;

/** How often a command that was continued in the background looks whether it has the terminal again. */
const FOREGROUND_MS = 500;

/** By then a stop signal has stopped the process. */
const STOPPED_MS = 50;

const guards = new WeakMap<Terminal, TerminalGuard>();

/** Owns the handlers for every way in which the command can lose the terminal. One for each terminal. */
export class TerminalGuard {
  readonly #terminal: Terminal;
  readonly #parts = new Set<Guarded>();
  #listeners: (() => void)[] = [];
  /** The parts have given the terminal back. */
  #restored = false;
  #waiting: ReturnType<typeof setTimeout> | undefined;

  private constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  static of(terminal: Terminal): TerminalGuard {
    const known = guards.get(terminal) ?? new TerminalGuard(terminal);
    guards.set(terminal, known);
    return known;
  }

  /** Returns a function that removes the part; the part itself restores what it changed then. */
  add(part: Guarded): () => void {
    if (this.#parts.size === 0) this.#listen();
    this.#parts.add(part);
    return () => {
      if (this.#parts.delete(part) && this.#parts.size === 0) this.#unlisten();
    };
  }

  /** Gives the terminal to another program while `work` runs. */
  async lend<T>(work: () => Promise<T>): Promise<T> {
    await this.#terminal.drained();
    this.#restore();
    try {
      return await work();
    } finally {
      this.#renew();
    }
  }

  /** Ctrl-Z: stops this process as if nothing handled the signal, and draws again when it is continued. */
  readonly #stop = (): void => {
    this.#restore();
    process.off("SIGTSTP", this.#stop);
    process.kill(process.pid, "SIGTSTP");
    // Without a shell that could continue it, the system ignores the signal, and no SIGCONT comes.
    this.#waiting = setTimeout(() => this.#continued(), STOPPED_MS);
  };

  #listen(): void {
    const events: NodeJS.EventEmitter = process;
    const on = (name: string, f: (reason: unknown) => void): void => {
      events.on(name, f);
      this.#listeners.push(() => events.off(name, f));
    };
    for (const name of ENDING) on(name, () => this.#ending(name));
    on("SIGTSTP", this.#stop);
    on("SIGCONT", () => this.#continued());
    on("exit", () => this.#restore());
    on("uncaughtExceptionMonitor", () => this.#restore());
    on("unhandledRejection", (reason) => {
      this.#restore();
      // As without a handler.
      if (process.listenerCount("unhandledRejection") === 1) throw reason;
    });
  }

  #unlisten(): void {
    clearTimeout(this.#waiting);
    for (const off of this.#listeners.splice(0)) off();
  }

  /** A signal that no other part of the command handles ends it, as it would without us. */
  #ending(name: NodeJS.Signals): void {
    if (process.listenerCount(name) > 1) return;
    try {
      this.#restore();
    } finally {
      // Also where the window is gone, and nothing can be restored.
      this.#unlisten();
      process.kill(process.pid, name);
    }
  }

  #continued(): void {
    clearTimeout(this.#waiting);
    if (this.#parts.size === 0) return;
    // The signal STOP gave no time to restore anything: then this repairs the terminal.
    if (!this.#terminal.isForeground()) {
      this.#waiting = setTimeout(() => this.#continued(), FOREGROUND_MS);
      this.#waiting.unref();
      return;
    }
    process.off("SIGTSTP", this.#stop);
    process.on("SIGTSTP", this.#stop);
    this.#restored = true;
    this.#renew();
  }

  #restore(): void {
    if (this.#restored) return;
    this.#restored = true;
    const texts = [...this.#parts].map((part) => part.restore());
    this.#terminal.writeNow(texts.join(""));
  }

  #renew(): void {
    if (!this.#restored) return;
    this.#restored = false;
    for (const part of this.#parts) part.renew();
  }
}
