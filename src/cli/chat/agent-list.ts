/** The sub-agents below the input line: one can be opened to watch it and talk to it, or stopped. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import { formatCount, formatElapsed, oneLine } from "../output/format.ts";
import { cutTo, type Look } from "../terminal/look.ts";
import type { ChildRun } from "../transcript/transcript.ts";

const MAX_ROWS = 5;

interface Place {
  columns: number;
  now: number;
}

interface AgentListPorts {
  open(child: ChildRun): void;
  stop(child: ChildRun): void;
}

export class AgentList {
  readonly #ports: AgentListPorts;
  /** null: the list has no keys, the input line has. */
  #selected: string | null = null;

  constructor(ports: AgentListPorts) {
    this.#ports = ports;
  }

  get hasFocus(): boolean {
    return this.#selected !== null;
  }

  /** Gives the list the keys. Returns false when there is nothing to choose from. */
  enter(children: readonly ChildRun[]): boolean {
    this.#selected = running(children)[0]?.uuid ?? null;
    return this.hasFocus;
  }

  leave(): void {
    this.#selected = null;
  }

  /** Returns whether the key was one of the list; any other goes to the input line, which takes the keys back. */
  key(data: string, children: readonly ChildRun[]): boolean {
    const shown = running(children);
    const at = shown.findIndex(({ uuid }) => uuid === this.#selected);
    const child = shown[Math.max(0, at)];
    if (child === undefined) {
      this.leave();
      return false;
    }
    if (matchesKey(data, "down")) this.#selected = shown[Math.min(shown.length - 1, at + 1)]?.uuid ?? null;
    else if (matchesKey(data, "up")) this.#selected = at <= 0 ? null : (shown[at - 1]?.uuid ?? null);
    else if (matchesKey(data, "escape")) this.leave();
    else if (matchesKey(data, "enter")) {
      this.leave();
      this.#ports.open(child);
    } else if (data === "x") this.#ports.stop(child);
    else {
      this.leave();
      return false;
    }
    return true;
  }

  lines(children: readonly ChildRun[], { columns, now }: Place, look: Look): string[] {
    const all = running(children);
    if (all.length === 0) {
      this.leave();
      return [];
    }
    const at = Math.max(
      0,
      all.findIndex(({ uuid }) => uuid === this.#selected),
    );
    const first = Math.max(0, Math.min(at - MAX_ROWS + 2, all.length - MAX_ROWS));
    const rows = all.slice(first, first + MAX_ROWS).map((child) => this.#line(child, { columns, now }, look));
    const hint = this.hasFocus ? "enter: watch and talk, x: stop, esc: back" : "down: choose a sub-agent";
    const more = all.length > MAX_ROWS ? `, ${all.length} in all` : "";
    return [...rows, look.dim(cutTo(`  ${hint}${more}`, columns, look))];
  }

  #line(child: ChildRun, { columns, now }: Place, look: Look): string {
    const isChosen = child.uuid === this.#selected;
    const side = `${formatElapsed(Math.max(0, now - child.started_at_ms))}${look.glyph.dot}${formatCount(child.tokens_used)} tokens`;
    const width = Math.max(8, columns - Bun.stringWidth(side) - 6);
    const name = cutTo(`${child.agent}  ${oneLine(child.intent, width)}`, width, look);
    const gap = " ".repeat(Math.max(2, columns - 4 - Bun.stringWidth(name) - Bun.stringWidth(side)));
    const line = `${isChosen ? look.glyph.prompt : " "} ${name}${gap}${side}`;
    return isChosen ? look.cyan(line) : look.dim(line);
  }
}

function running(children: readonly ChildRun[]): ChildRun[] {
  return children.filter(({ state }) => state === "running");
}
