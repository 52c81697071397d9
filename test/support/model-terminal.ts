import type { Keys, Terminal } from "../../src/cli/io.ts";
import { ScreenModel, type ScreenOptions } from "./screen-model.ts";

/** A terminal in memory, for what draws: its screen is a model, its keys come from `type`. */
export class ModelTerminal implements Terminal {
  readonly screen: ScreenModel;
  readonly #resized = new Set<() => void>();
  #keys: ((bytes: Uint8Array) => void) | null = null;
  #shown: Promise<void> = Promise.resolve();
  #taken: PromiseWithResolvers<void> | null = null;
  #held: string[] = [];
  #reported: { columns: number; rows: number } | null = null;
  /** What was written, also what a stopped terminal has not shown. */
  written = "";
  closed = false;
  foreground = true;

  constructor(options: ScreenOptions = {}) {
    this.screen = new ScreenModel(options);
    this.screen.onReply((text) => this.type(text));
  }

  size(): { columns: number; rows: number } {
    return this.#reported ?? { columns: this.screen.columns, rows: this.screen.rows };
  }

  /** Changes the screen; the program finds the new size only after `report`. */
  resizeLate(columns: number, rows: number): void {
    this.#reported ??= this.size();
    this.screen.resize(columns, rows);
  }

  report(): void {
    this.#reported = null;
    for (const resized of this.#resized) resized();
  }

  onResize(f: () => void): () => void {
    this.#resized.add(f);
    return () => void this.#resized.delete(f);
  }

  write(text: string): void {
    this.written += text;
    if (this.#taken === null) this.#shown = this.screen.write(text);
    else this.#held.push(text);
  }

  get isBehind(): boolean {
    return this.#taken !== null;
  }

  async drained(): Promise<void> {
    await this.#taken?.promise;
  }

  writeNow(text: string): void {
    this.write(text);
  }

  readKeys(f: (bytes: Uint8Array) => void): Keys | null {
    this.#keys = f;
    return {
      close: () => {
        this.#keys = null;
      },
    };
  }

  isForeground(): boolean {
    return this.foreground;
  }

  type(keys: string): void {
    this.#keys?.(new TextEncoder().encode(keys));
  }

  /** As a terminal does: first the screen changes, then the program gets the signal. */
  resize(columns: number, rows: number): void {
    this.screen.resize(columns, rows);
    for (const resized of this.#resized) resized();
  }

  /** Ctrl-S: nothing is taken until `start`. */
  stop(): void {
    this.#taken ??= Promise.withResolvers();
  }

  start(): void {
    const taken = this.#taken;
    this.#taken = null;
    for (const text of this.#held.splice(0)) this.#shown = this.screen.write(text);
    taken?.resolve();
  }

  /** Resolves when all that was written is on the screen, and its answers were read. */
  async settled(): Promise<void> {
    for (let shown = null; shown !== this.#shown; ) {
      shown = this.#shown;
      await shown;
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  }
}
