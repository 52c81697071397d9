/** Runs `rnix top` at a terminal: the window, and the runs that are opened from it. */

import { type Clock, realClock, type Timer } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ProcChanges } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { environment, type Io } from "../io.ts";
import { Keyboard } from "../terminal/keyboard.ts";
import { lookOf } from "../terminal/look.ts";
import { Screen } from "../terminal/screen.ts";
import { TopLink } from "./link.ts";
import { NEWEST, Now, type TopRun } from "./now.ts";
import type { Arrangement } from "./rows.ts";
import { TopView } from "./view.ts";

/** The least time between two arrangements of the rows. */
const CHANGE_MS = 250;
const TICK_MS = 1000;
/** The least time between two readings of the ended runs. */
const ENDED_MS = 2000;

export async function runTop(io: Io, by: Arrangement): Promise<number> {
  const link = await TopLink.open(io);
  if (link === null) throw new SyscallError("UNAVAILABLE", "no daemon runs and none could be started");
  const top = new Top(io, link, by, realClock);
  try {
    return await top.run();
  } finally {
    await top.close();
  }
}

class Top {
  readonly #io: Io;
  readonly #link: TopLink;
  readonly #clock: Clock;
  readonly #now = new Now();
  readonly #view: TopView;
  /** null: another program has the terminal. */
  #screen: Screen | null = null;
  #left = Promise.withResolvers<TopRun | null>();
  readonly #timers: Partial<Record<"change" | "ended" | "tick", Timer>> = {};

  constructor(io: Io, link: TopLink, by: Arrangement, clock: Clock) {
    this.#io = io;
    this.#link = link;
    this.#clock = clock;
    this.#view = new TopView(by, {
      link,
      now: this.#now,
      look: lookOf(io),
      env: environment(io),
      redraw: () => this.#screen?.redraw(),
      refresh: () => this.#readEnded(),
      leave: (run) => this.#left.resolve(run),
    });
    link.lend = (work) => this.#screen?.suspendFor(work) ?? work();
  }

  async run(): Promise<number> {
    const lost = (): void => {
      this.#now.isLost = true;
      this.#view.arrange();
    };
    this.#link
      .watch({ change: (change) => this.#changed(change), lost })
      .catch((error: unknown) => this.#left.reject(error));
    this.#tick();
    for (;;) {
      const open = await this.#window();
      if (open === null) return EXIT.ok;
      this.#left = Promise.withResolvers();
      // A failure meanwhile is thrown by the next window.
      this.#left.promise.catch(() => undefined);
      await this.#follow(open).catch((error: unknown) => this.#view.say(messageOf(error)));
    }
  }

  async close(): Promise<void> {
    for (const timer of Object.values(this.#timers)) timer.cancel();
    this.#view.close();
    await this.#link.close();
  }

  /** Shows the window until the user leaves it, or opens a run. */
  async #window(): Promise<TopRun | null> {
    const screen = Screen.open(this.#io, { clock: this.#clock, full: true });
    const keyboard = Keyboard.open(this.#io, {
      key: (data) => this.#view.key(data),
      paste: (text) => this.#view.paste(text),
      interrupt: () => this.#view.interrupt(),
    });
    this.#screen = screen;
    try {
      screen.title("rnix top");
      screen.show((size) => this.#view.frame(size));
      return await this.#left.promise;
    } finally {
      this.#screen = null;
      keyboard?.close();
      await screen.close();
    }
  }

  /** As `rnix attach`, on the screen below. The end of the run stays until a key. */
  async #follow({ uuid }: TopRun): Promise<void> {
    const { default: attach } = await import("../commands/attach.ts");
    await attach.run?.(this.#io, { values: new Map(), positionals: [uuid] });
    const { live } = await this.#link.request("show", { uuid });
    if (live) return;
    this.#io.stderr.write("any key: back to rnix top\n");
    const pressed = Promise.withResolvers<void>();
    const press = (): void => pressed.resolve();
    const keyboard = Keyboard.open(this.#io, { key: press, paste: press, interrupt: press });
    await pressed.promise;
    keyboard?.close();
  }

  #changed(change: ProcChanges): void {
    const isFirst = this.#now.all.size === 0;
    if (this.#now.apply(change)) this.#readEnded();
    if (isFirst) this.#view.arrange();
    else this.#later("change", CHANGE_MS, () => this.#view.arrange());
  }

  #readEnded(): void {
    const read = async (): Promise<void> => {
      this.#now.ended((await this.#link.request("list_all_procs", NEWEST)).processes);
      this.#view.arrange();
    };
    this.#later("ended", this.#now.hasEnded ? ENDED_MS : 0, () => {
      read().catch((error: unknown) => this.#view.say(messageOf(error)));
    });
  }

  #tick(): void {
    this.#later("tick", TICK_MS, () => {
      this.#view.tick();
      this.#tick();
    });
  }

  /** Once, however often it is asked for until then. */
  #later(name: "change" | "ended" | "tick", ms: number, f: () => void): void {
    this.#timers[name] ??= this.#clock.timer(ms, () => {
      delete this.#timers[name];
      f();
    });
  }
}
