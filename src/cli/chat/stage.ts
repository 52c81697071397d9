/** Shares one screen between several views, of which one is visible. */

import type { RunScreen } from "../terminal/live-view.ts";
import type { Screen, View } from "../terminal/screen.ts";

/** Maximum lines that a hidden view keeps until it is visible again. */
const MAX_KEPT = 5000;

export class Stage {
  readonly #screen: Screen;
  #front: Actor | null = null;

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** A screen for one view, hidden at first. */
  newScreen(): Actor {
    return new Actor(this.#screen, () => this.#front);
  }

  get front(): Actor | null {
    return this.#front;
  }

  /** Makes one of them visible. What it printed meanwhile is printed now. */
  show(actor: Actor): void {
    if (this.#front === actor) return;
    this.#front = actor;
    actor.enter();
  }
}

export class Actor implements RunScreen {
  readonly #screen: Screen;
  readonly #front: () => Actor | null;
  #view: View = () => ({ lines: [] });
  #kept: string[] = [];
  #title: string | null = null;

  constructor(screen: Screen, front: () => Actor | null) {
    this.#screen = screen;
    this.#front = front;
  }

  get columns(): number {
    return this.#screen.columns;
  }

  get rows(): number {
    return this.#screen.rows;
  }

  commit(lines: readonly string[]): void {
    if (this.#isFront) this.#screen.commit(lines);
    else this.#kept = [...this.#kept, ...lines].slice(-MAX_KEPT);
  }

  show(view: View): void {
    this.#view = view;
    if (this.#isFront) this.#screen.show(view);
  }

  redraw(): void {
    if (this.#isFront) this.#screen.redraw();
  }

  title(text: string | null): void {
    if (text === this.#title) return;
    this.#title = text;
    if (this.#isFront && text !== null) this.#screen.title(text);
  }

  suspendFor<T>(work: () => Promise<T>): Promise<T> {
    return this.#screen.suspendFor(work);
  }

  /** The view has ended; the screen stays. */
  async close(): Promise<void> {
    this.#view = () => ({ lines: [] });
  }

  enter(): void {
    this.#screen.commit(this.#kept.splice(0));
    this.#screen.show(this.#view);
    if (this.#title !== null) this.#screen.title(this.#title);
  }

  get #isFront(): boolean {
    return this.#front() === this;
  }
}
