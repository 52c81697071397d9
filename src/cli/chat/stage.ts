/** Shares one screen between several views, of which one is visible. */

import type { RunScreen } from "../terminal/live-view.ts";
import type { Screen, View } from "../terminal/screen.ts";

/** Maximum lines that a hidden view keeps until it is visible again. */
const MAX_KEPT = 5000;

export class Stage {
  readonly screen: Screen;
  front: Actor | null = null;

  constructor(screen: Screen) {
    this.screen = screen;
  }

  /** Makes one of them visible. What it printed meanwhile is printed now. */
  show(actor: Actor): void {
    if (this.front === actor) return;
    this.front = actor;
    actor.enter();
  }
}

/** A screen for one view, hidden at first. */
export class Actor implements RunScreen {
  readonly #stage: Stage;
  #view: View = () => ({ lines: [] });
  #kept: string[] = [];
  #title: string | null = null;

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  get columns(): number {
    return this.#stage.screen.columns;
  }

  get rows(): number {
    return this.#stage.screen.rows;
  }

  commit(lines: readonly string[]): void {
    if (this.#visible) this.#visible.commit(lines);
    else this.#kept = [...this.#kept, ...lines].slice(-MAX_KEPT);
  }

  show(view: View): void {
    this.#view = view;
    this.#visible?.show(view);
  }

  redraw(): void {
    this.#visible?.redraw();
  }

  title(text: string | null): void {
    if (text === this.#title) return;
    this.#title = text;
    if (text !== null) this.#visible?.title(text);
  }

  suspendFor<T>(work: () => Promise<T>): Promise<T> {
    return this.#stage.screen.suspendFor(work);
  }

  /** The view has ended; the screen stays. */
  async close(): Promise<void> {
    this.#view = () => ({ lines: [] });
  }

  enter(): void {
    const { screen } = this.#stage;
    screen.commit(this.#kept.splice(0));
    screen.show(this.#view);
    if (this.#title !== null) screen.title(this.#title);
  }

  get #visible(): Screen | null {
    return this.#stage.front === this ? this.#stage.screen : null;
  }
}
