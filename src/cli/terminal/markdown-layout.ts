/** Lays out one block of Markdown as styled lines. */

import { Highlighter } from "./highlight.ts";
import type { Look } from "./look.ts";
import { isolated, plainText } from "./safe-text.ts";
import { tableLines } from "./table-layout.ts";
import { widthOf, wrap } from "./width.ts";

interface Element {
  type: string;
  props: Readonly<Record<string, unknown>>;
}

type Node = string | Element;

const CODE_INDENT = "  ";
const MAX_RULE = 72;
/** Text that is nested so deeply that it would be narrower is not indented further. */
const MIN_WIDTH = 12;

/** The lines of a block. `number`: what an ordered list's first item is numbered with. */
export function blockLines(source: string, columns: number, style: Look, number?: number): string[] {
  const root: unknown = Bun.markdown.react(source, undefined, { autolinks: { url: true } });
  return new Layout(style, number).blocks(childrenOf(root), columns, 0);
}

export function codeLines(line: string, columns: number, highlighter: Highlighter): string[] {
  const indent = /^\s*/.exec(line)?.[0].length ?? 0;
  const width = Math.max(1, columns - CODE_INDENT.length);
  const hang = " ".repeat(Math.min(indent + 2, width >> 1));
  return wrap(highlighter.line(plainText(line)), width, hang).map((part) =>
    part === "" ? "" : CODE_INDENT + part,
  );
}

class Layout {
  readonly #style: Look;
  readonly #number: number | undefined;

  constructor(style: Look, number: number | undefined) {
    this.#style = style;
    this.#number = number;
  }

  /** The blocks among `nodes`, with an empty line between two unless both belong to an item's head. */
  blocks(nodes: readonly Node[], columns: number, depth: number): string[] {
    const lines: string[] = [];
    let inline: Node[] = [];
    const add = (block: string[], tight: boolean): void => {
      if (block.length === 0) return;
      if (lines.length > 0 && !tight) lines.push("");
      lines.push(...block);
    };
    const flush = (): void => {
      if (inline.length > 0) add(this.#paragraph(inline, columns), false);
      inline = [];
    };
    for (const node of nodes) {
      if (typeof node === "string" || INLINE.has(node.type)) {
        inline.push(node);
        continue;
      }
      const afterInline = inline.length > 0;
      flush();
      const isList = node.type === "ul" || node.type === "ol";
      add(this.#block(node, columns, depth), isList && (afterInline || depth > 0));
    }
    flush();
    return lines;
  }

  #block(node: Element, columns: number, depth: number): string[] {
    const children = childrenOf(node);
    const level = /^h([1-6])$/.exec(node.type)?.[1];
    if (level !== undefined) return this.#heading(children, Number(level), columns);
    switch (node.type) {
      case "ul":
      case "ol":
        return this.#list(node, columns, depth);
      case "blockquote":
        return this.#quote(children, columns, depth);
      case "pre":
        return this.#code(children, node.props.language, columns);
      case "table":
        return tableLines(this.#rows(node), columns, this.#style);
      case "hr":
        return [this.#style.dim(this.#style.mark.rule.repeat(Math.min(columns, MAX_RULE)))];
      case "html":
        return plainText(textOf(children))
          .trimEnd()
          .split("\n")
          .flatMap((line) => wrap(line, columns));
      default:
        return this.#paragraph(children, columns);
    }
  }

  #paragraph(nodes: readonly Node[], columns: number): string[] {
    const text = this.#inline(nodes).replace(/^[ \n]+|[ \n]+$/g, "");
    return text === "" ? [] : wrap(text, columns);
  }

  #heading(nodes: readonly Node[], level: number, columns: number): string[] {
    const { bold, underline, cyan } = this.#style;
    const paint = (line: string) =>
      level === 1 ? bold(underline(cyan(line))) : level === 2 ? bold(cyan(line)) : bold(line);
    return this.#paragraph(nodes, columns).map(paint);
  }

  #list(list: Element, columns: number, depth: number): string[] {
    const start = typeof list.props.start === "number" ? list.props.start : null;
    const first = depth === 0 && start !== null ? (this.#number ?? start) : start;
    const items = childrenOf(list).filter((node) => typeof node !== "string");
    return items.flatMap((item, at) => {
      const marker = this.#marker(item, first === null ? null : first + at, depth);
      const indent = " ".repeat(widthOf(marker));
      const width = columns - indent.length;
      if (width < MIN_WIDTH) return [marker.trimEnd(), ...this.blocks(childrenOf(item), columns, depth + 1)];
      const lines = this.blocks(childrenOf(item), width, depth + 1);
      if (lines.length === 0) return [marker.trimEnd()];
      return lines.map((line, row) =>
        row === 0 ? marker + isolated(line) : line === "" ? "" : indent + isolated(line),
      );
    });
  }

  #marker(item: Element, number: number | null, depth: number): string {
    const { mark, cyan, green, dim } = this.#style;
    const { checked } = item.props;
    if (checked === true) return `${green(mark.checked)} `;
    if (checked === false) return `${dim(mark.unchecked)} `;
    if (number !== null) return `${cyan(`${number}.`)} `;
    return `${cyan(mark.bullets[depth % mark.bullets.length] ?? "*")} `;
  }

  #quote(nodes: readonly Node[], columns: number, depth: number): string[] {
    const { dim, mark } = this.#style;
    const bar = `${dim(mark.quote)} `;
    const width = columns - widthOf(bar);
    if (width < MIN_WIDTH) return this.blocks(nodes, columns, depth);
    return this.blocks(nodes, width, depth).map((line) =>
      line === "" ? bar.trimEnd() : bar + isolated(line),
    );
  }

  #code(nodes: readonly Node[], language: unknown, columns: number): string[] {
    const highlighter = new Highlighter(typeof language === "string" ? language : "", this.#style);
    const lines = textOf(nodes).replace(/\n$/, "").split("\n");
    return lines.flatMap((line) => codeLines(line, columns, highlighter));
  }

  #rows(table: Element): { text: string; align: "left" | "right" | "center" }[][] {
    const parts = childrenOf(table).filter((node) => typeof node !== "string");
    return parts
      .flatMap((part) => childrenOf(part))
      .filter((row) => typeof row !== "string")
      .map((row) =>
        childrenOf(row)
          .filter((cell) => typeof cell !== "string")
          .map((cell) => {
            const { align } = cell.props;
            return {
              text: this.#inline(childrenOf(cell)).replaceAll("\n", " ").trim(),
              align: align === "right" || align === "center" ? align : "left",
            };
          }),
      );
  }

  /** Styled text; a newline is a line break that the source asked for. */
  #inline(nodes: readonly Node[]): string {
    return nodes.map((node) => (typeof node === "string" ? leaf(node) : this.#span(node))).join("");
  }

  #span(node: Element): string {
    const { bold, italic, strike, cyan } = this.#style;
    const children = childrenOf(node);
    switch (node.type) {
      case "strong":
        return bold(this.#inline(children));
      case "em":
        return italic(this.#inline(children));
      case "del":
        return strike(this.#inline(children));
      case "code":
        return cyan(leaf(textOf(children)));
      case "br":
        return "\n";
      case "a":
        return this.#link(this.#inline(children), leaf(String(node.props.href ?? "")));
      case "img":
        return this.#link(
          `[image${node.props.alt ? `: ${leaf(String(node.props.alt))}` : ""}]`,
          leaf(String(node.props.src ?? "")),
        );
      default:
        return this.#inline(children);
    }
  }

  /** The address is always shown: a link can't lead elsewhere than it says. */
  #link(text: string, address: string): string {
    const { blue, underline, dim, link } = this.#style;
    const bare = Bun.stripANSI(text);
    const isShown = [address, address.replace(/^(?:https?:\/\/|mailto:)/, "")].some(
      (form) => form.replace(/\/$/, "") === bare.replace(/\/$/, ""),
    );
    const linked = (shown: string) => (/^(?:https?|mailto):/i.test(address) ? link(shown, address) : shown);
    if (isShown) return linked(blue(underline(text)));
    return address === "" ? text : `${linked(blue(underline(text)))} ${dim(`(${linked(address)})`)}`;
  }
}

const INLINE = new Set(["strong", "em", "del", "code", "br", "a", "img", "u"]);

/** Text of one leaf: entities may have brought control characters, and a soft break is a space. */
function leaf(text: string): string {
  return text === "\n" ? " " : plainText(text).replaceAll("\n", " ");
}

function childrenOf(node: unknown): Node[] {
  const props = typeof node === "object" && node !== null && "props" in node ? node.props : undefined;
  const children =
    typeof props === "object" && props !== null && "children" in props ? props.children : undefined;
  const list = Array.isArray(children) ? children : children === undefined ? [] : [children];
  return list.flatMap((child: unknown): Node[] => {
    if (typeof child === "string") return [child];
    return isElement(child) ? [child] : [];
  });
}

function isElement(node: unknown): node is Element {
  return (
    typeof node === "object" &&
    node !== null &&
    "type" in node &&
    typeof node.type === "string" &&
    "props" in node
  );
}

function textOf(nodes: readonly Node[]): string {
  return nodes.map((node) => (typeof node === "string" ? node : textOf(childrenOf(node)))).join("");
}
