/** The window of `rnix top`: rows, a pane below them, and what its keys do. */

import { Input } from "@earendil-works/pi-tui/dist/components/input.js";
import { type KeyId, matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { CURSOR_MARKER } from "@earendil-works/pi-tui/dist/tui.js";
import { realClock } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ListedAsk } from "../../protocol/methods.ts";
import type { TerminalSize } from "../io.ts";
import { oneLine } from "../output/format.ts";
import { cutTo, type Look, wrapTo } from "../terminal/look.ts";
import { QuestionPanel } from "../terminal/questions/question-panel.ts";
import type { Frame } from "../terminal/screen.ts";
import { ACTIONS, type Action, answer } from "./actions.ts";
import { COLOURS, runLine, titleLine } from "./columns.ts";
import type { TopLink } from "./link.ts";
import { LogPane } from "./log-pane.ts";
import type { Now, TopRun } from "./now.ts";
import { type Arrangement, doingOf, ORDERS, rowsOf, titleOf } from "./rows.ts";
import { RunList } from "./run-list.ts";
import { UnitPane } from "./unit-pane.ts";

interface TopPorts {
  link: TopLink;
  now: Now;
  look: Look;
  env: Record<string, string>;
  redraw(): void;
  /** Something was done: a run may have ended before it was seen as live. */
  refresh(): void;
  /** null: the user leaves. */
  leave(open: TopRun | null): void;
}

/** What has the keys, beside the rows. */
type Mode =
  | { kind: "rows" | "help" }
  | { kind: "line"; label: string; input: Input; typed?(text: string): void; enter(text: string): void }
  | { kind: "confirm"; question: string; yes(): void }
  /** `said`: a call that is too long for the panel, from line `first` on. */
  | { kind: "ask"; ask: ListedAsk; panel: QuestionPanel; said: string[]; first: number };

interface Key {
  keys: readonly KeyId[];
  /** In the last line, the most important first. */
  hint?: string;
  about: string;
  /** `index`: of the key. */
  run(index: number): void;
}

const ROWS: Mode = { kind: "rows" };
/** Farther than any row. */
const END = 1_000_000;
/** The share of the window that a pane takes, and a question. */
const PANE = 0.4;
const ASK = 0.6;
/** Lines of a long call that a key moves it by. */
const SCROLLED = 5;
/** Fewer rows have no room for a pane. */
const MIN_ROWS = 10;

export class TopView {
  readonly #ports: TopPorts;
  readonly #log: LogPane;
  readonly #units: UnitPane;
  readonly #keys: readonly Key[];
  #by: Arrangement;
  readonly #list = new RunList();
  #pane: "log" | "units" | null = null;
  #mode: Mode = ROWS;
  #message = "";

  constructor(by: Arrangement, ports: TopPorts) {
    this.#by = by;
    this.#ports = ports;
    const redraw = (): void => ports.redraw();
    this.#log = new LogPane(ports.link, redraw);
    this.#units = new UnitPane(ports.link, redraw);
    this.#keys = this.#keyTable();
  }

  /** Rows are arranged again: something has changed. */
  arrange(): void {
    const { now, look } = this.#ports;
    this.#list.arrange(rowsOf(now, this.#by, realClock.now(), look.glyph));
    const mode = this.#mode;
    if (mode.kind === "ask" && !now.asks.some(({ request_id }) => request_id === mode.ask.request_id))
      this.#mode = ROWS;
    this.#showPane();
    this.#ports.redraw();
  }

  /** Each second: what counts time. */
  tick(): void {
    if (this.#pane === "units") this.#units.read();
    this.#ports.redraw();
  }

  say(text: string): void {
    this.#message = text;
    this.#ports.redraw();
  }

  close(): void {
    this.#log.close();
  }

  /** Ctrl-C leaves what has the keys, else the window. */
  interrupt(): void {
    if (this.#mode === ROWS) this.#ports.leave(null);
    this.#mode = ROWS;
    this.#ports.redraw();
  }

  paste(text: string): void {
    if (this.#mode.kind === "ask") this.#mode.panel.paste(text);
    if (this.#mode.kind === "line") this.#type(this.#mode, `\u001b[200~${text}\u001b[201~`);
    this.#ports.redraw();
  }

  key(data: string): void {
    const mode = this.#mode;
    this.#message = "";
    if (mode.kind === "line") this.#type(mode, data);
    else if (mode.kind === "confirm") {
      this.#mode = ROWS;
      if (data === "y") mode.yes();
    } else if (mode.kind === "help") this.#mode = ROWS;
    else if (mode.kind === "ask") {
      // Here Esc does not mean no: the person came to look.
      if (matchesKey(data, "ctrl+d") || matchesKey(data, "escape")) this.#mode = ROWS;
      else if (matchesKey(data, "pageDown")) mode.first += SCROLLED;
      else if (matchesKey(data, "pageUp")) mode.first = Math.max(0, mode.first - SCROLLED);
      else mode.panel.key(data);
    } else this.#press(data);
    this.#ports.redraw();
  }

  #press(data: string): void {
    const matching = (keys: readonly KeyId[]): number => keys.findIndex((key) => matchesKey(data, key));
    const pressed = this.#keys.find(({ keys }) => matching(keys) >= 0);
    pressed?.run(matching(pressed.keys));
    this.#showPane();
  }

  frame({ columns, rows }: TerminalSize): Frame {
    const { look } = this.#ports;
    const foot = this.#foot(columns);
    const share = this.#mode.kind === "ask" ? ASK : PANE;
    const isHelp = this.#mode.kind === "help";
    const below = isHelp || rows < MIN_ROWS ? [] : this.#below(Math.floor(rows * share), columns);
    const head = isHelp
      ? []
      : [this.#summary(columns), look.bold(titleLine(columns))].slice(0, Math.max(0, rows - 2));
    const room = Math.max(1, rows - head.length - below.length - 1);
    const lines = [...head, ...this.#body(room, columns), ...below, foot.line].slice(-rows);
    if (foot.column === undefined) return { lines };
    return { lines, cursor: { row: lines.length - 1, column: foot.column } };
  }

  get #run(): TopRun | undefined {
    return this.#list.run;
  }

  #keyTable(): Key[] {
    const on = (keys: readonly KeyId[], about: string, run: Key["run"], hint?: string): Key => ({
      keys,
      about,
      run,
      hint,
    });
    const order = `by ${ORDERS.map(([name]) => name).join(", ")}; turn it around`;
    return [
      on(["?"], "this list", () => (this.#mode = { kind: "help" }), "keys"),
      on(["q"], "leave; runs continue", () => this.#ports.leave(null), "quit"),
      on(["up", "down"], "the run above, below", (i) => this.#list.move(i === 0 ? -1 : 1)),
      on(["pageUp", "pageDown"], "a page up, down", (i) => this.#list.page(i === 0 ? -1 : 1)),
      on(["home", "end"], "the first run, the last", (i) => this.#list.move(i === 0 ? -END : END)),
      on(["enter"], "follow a live run; the log of another one", () => this.#open(), "open"),
      on(["a"], "answer what it asks", () => this.#ask(), "answer"),
      ...ACTIONS.map((action) => ({ ...action, run: () => this.#act(action) })),
      on(["l"], "its latest events", () => this.#toggle("log"), "log"),
      on(["u"], "its background units, and their output", () => this.#toggle("units"), "units"),
      on(["tab", "x"], "the next unit; end it", (i) => (i === 0 ? this.#units.next() : this.#endUnit())),
      on(["/"], "only runs that have these words", () => this.#filter(), "filter"),
      on(["o", "shift+o"], order, (i) => this.#sort(i === 1), "order"),
      on(["t"], "trees, or each run for itself", () => this.#set({ isTree: !this.#by.isTree }), "tree"),
      on(["space", "left", "right"], "hide or show the runs below it", () => this.#fold()),
      on(["escape"], "close the pane, then clear the filter", () => this.#escape()),
    ];
  }

  #set(change: Partial<Arrangement>): void {
    this.#by = { ...this.#by, ...change };
    this.arrange();
  }

  #sort(isReversed: boolean): void {
    const order = isReversed ? this.#by.order : (this.#by.order + 1) % ORDERS.length;
    this.#set({ order, isReversed: isReversed !== this.#by.isReversed });
    this.#message = `sorted by ${ORDERS[order]?.[0]}${this.#by.isReversed ? ", the least first" : ""}`;
  }

  #fold(): void {
    const folded = new Set(this.#by.folded);
    if (!folded.delete(this.#list.chosen)) folded.add(this.#list.chosen);
    this.#set({ folded });
  }

  #toggle(pane: "log" | "units"): void {
    this.#pane = this.#pane === pane ? null : pane;
  }

  #escape(): void {
    if (this.#pane !== null) this.#toggle(this.#pane);
    else if (this.#by.filter !== "") this.#set({ filter: "" });
  }

  #showPane(): void {
    this.#log.show(this.#pane === "log" ? this.#run : undefined);
    this.#units.show(this.#pane === "units" ? (this.#run?.units ?? []) : []);
  }

  #open(): void {
    const run = this.#run;
    if (run?.ended_at_ms === null) this.#ports.leave(run);
    else if (this.#pane !== "log") this.#toggle("log");
  }

  #filter(): void {
    const typed = (filter: string): void => this.#set({ filter });
    this.#line("filter: ", this.#by.filter, () => undefined, typed);
  }

  #line(label: string, text: string, enter: (text: string) => void, typed?: (text: string) => void): void {
    const input = new Input({ prompt: "" });
    input.focused = true;
    input.setValue(text);
    this.#mode = { kind: "line", label, input, enter, typed };
  }

  #type({ input, enter, typed }: Extract<Mode, { kind: "line" }>, data: string): void {
    if (matchesKey(data, "escape")) {
      this.#mode = ROWS;
      typed?.("");
    } else if (matchesKey(data, "enter")) {
      this.#mode = ROWS;
      if (input.getValue().trim() !== "") enter(input.getValue().trim());
    } else {
      input.handleInput(data);
      typed?.(input.getValue());
    }
  }

  #act(action: Action): void {
    const run = this.#run;
    if (run === undefined) return;
    const { link, env } = this.#ports;
    const send = (text = ""): Promise<string> => action.send(link, run, text, env);
    const name = `process ${run.pid}`;
    if (action.line) this.#line(`${action.line} ${name}: `, "", (text) => this.#report(send(text)));
    else if (action.confirm) this.#confirm(`${action.confirm} ${name} and all below it`, send);
    else this.#report(send());
  }

  #report(work: Promise<string>): void {
    work.then(
      (text) => {
        this.say(text);
        this.#ports.refresh();
      },
      (error: unknown) => this.say(messageOf(error)),
    );
  }

  #endUnit(): void {
    const unit = this.#pane === "units" ? this.#units.chosen : undefined;
    if (unit === undefined) return;
    const { id } = unit;
    this.#confirm(`end unit ${id}`, () =>
      this.#ports.link.request("stop_unit", { id }).then(() => `unit ${id} is terminating`),
    );
  }

  #confirm(what: string, work: () => Promise<string>): void {
    this.#mode = { kind: "confirm", question: `${what}? y/n`, yes: () => this.#report(work()) };
  }

  #ask(): void {
    const { now, link, env } = this.#ports;
    const ask = now.askOf(this.#list.chosen) ?? now.asks.find(({ uuid }) => this.#isBelow(uuid));
    if (ask === undefined) {
      this.#message = "it asks nothing";
      return;
    }
    const said: string[] = [];
    const panel = new QuestionPanel({
      send: async (id, answers) => {
        try {
          this.#message = await answer(link, id, answers, env);
        } catch (error) {
          // An answer that does not fit leaves the question open.
          if (error instanceof SyscallError && error.code === "INVALID") throw error;
          this.#message = messageOf(error);
        }
        this.#mode = ROWS;
        this.#ports.redraw();
      },
      now: () => realClock.now(),
      say: (line) => {
        said.push(line);
        this.#ports.redraw();
      },
      interrupt: () => undefined,
      escLeaves: true,
      holdsText: () => false,
      type: () => undefined,
    });
    panel.ask(ask);
    this.#mode = { kind: "ask", ask, panel, said, first: 0 };
  }

  /** Whether a run is below the chosen one. */
  #isBelow(uuid: string): boolean {
    const { all } = this.#ports.now;
    for (let run = all.get(uuid); run?.parent_uuid; run = all.get(run.parent_uuid))
      if (run.parent_uuid === this.#list.chosen) return true;
    return false;
  }

  #summary(columns: number): string {
    const { now, look } = this.#ports;
    if (now.isLost) return look.red(cutTo("the daemon is gone: looking for it again", columns, look));
    const groups = this.#list.rows.flatMap((row) =>
      row.kind === "group" ? [`${row.count} ${row.title.toLowerCase()}`] : [],
    );
    const calls = now.queues.map(
      ({ provider, running, at_once, waiting }) =>
        `${provider} ${running} of ${at_once} calls${waiting === 0 ? "" : `, ${waiting} waiting`}`,
    );
    const text = groups.length === 0 ? 'nothing has run yet: rnix spawn "…"' : groups.join(look.glyph.dot);
    return cutTo(`${look.bold("rnix top")}  ${[text, ...calls].join("  ")}`, columns, look);
  }

  #body(room: number, columns: number): string[] {
    const { now, look } = this.#ports;
    const mode = this.#mode;
    if (mode.kind === "help") return filled(this.#helpLines(columns), room);
    if (mode.kind === "ask" && mode.said.length > 0) {
      const lines = mode.said.flatMap((line) => wrapTo(line, columns));
      mode.first = Math.max(0, Math.min(mode.first, lines.length - room));
      return filled(lines.slice(mode.first), room);
    }
    const at = realClock.now();
    const clock = (ms: number): string => new Date(ms).toTimeString().slice(0, 5);
    const lines = this.#list.visible(room).map((row) => {
      if (row.kind === "group") return look.bold(look[COLOURS[row.group]](`${row.title} ${row.count}`));
      const { run } = row;
      const isChosen = run.uuid === this.#list.chosen;
      const cells = { title: titleOf(run), doing: doingOf(run, now, clock), at, isChosen };
      return runLine(row, cells, columns, look);
    });
    return filled(lines, room);
  }

  #helpLines(columns: number): string[] {
    const { look } = this.#ports;
    return this.#keys.map(({ keys, about }) =>
      cutTo(`  ${keys.join(", ").padEnd(20)} ${about}`, columns, look),
    );
  }

  /** The pane, below a line with its name. */
  #below(room: number, columns: number): string[] {
    const { look } = this.#ports;
    const mode = this.#mode;
    const under = (title: string, lines: readonly string[]): string[] => {
      const rule = look.mark.rule.repeat(Math.max(0, columns - title.length - 4));
      return [look.dim(`${look.mark.rule} ${title} ${rule}`), ...filled(lines, room - 1)];
    };
    if (mode.kind === "ask")
      return under(`process ${mode.ask.pid} asks`, mode.panel.lines({ columns, rows: room - 1 }, look));
    const name = `process ${this.#run?.pid ?? "-"}`;
    if (this.#pane === "log") return under(`log of ${name}`, this.#log.lines(room - 1, columns, look));
    if (this.#pane === "units")
      return under(`units of ${name}`, this.#units.lines(room - 1, columns, realClock.now(), look));
    return [];
  }

  #foot(columns: number): { line: string; column?: number } {
    const { look } = this.#ports;
    const mode = this.#mode;
    if (mode.kind === "line") {
      const label = cutTo(mode.label, Math.floor(columns / 2), look);
      const [line = ""] = mode.input.render(columns - label.length);
      const [before = "", after = ""] = line.split(CURSOR_MARKER);
      return {
        line: look.bold(label) + before + Bun.stripANSI(after),
        column: label.length + Bun.stringWidth(before),
      };
    }
    if (mode.kind === "confirm") return { line: look.yellow(cutTo(mode.question, columns, look)) };
    if (mode.kind === "ask") {
      const scroll = mode.said.length > 0 ? "page up, page down: all of it, " : "";
      return { line: look.dim(cutTo(`${scroll}esc leaves it open`, columns, look)) };
    }
    if (mode.kind === "help") return { line: look.dim("any key: back") };
    if (this.#message !== "") return { line: oneLine(this.#message, columns) };
    const filter = this.#by.filter === "" ? [] : [`filter: ${this.#by.filter} (esc clears)`];
    const hints = this.#keys.flatMap(({ keys: [key], hint }) =>
      hint === undefined ? [] : [`${key} ${hint}`],
    );
    return { line: look.dim(cutTo([...filter, ...hints].join("  "), columns, look)) };
  }
}

/** Exactly this number of lines. */
function filled(lines: readonly string[], room: number): string[] {
  return Array.from({ length: Math.max(0, room) }, (_, at) => lines[at] ?? "");
}
