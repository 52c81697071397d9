/** Makes text of what a web server sent. It runs in a Worker: a page may be built to take long or to break a parser. */

import { TextDecoder } from "node:util";
import { SyscallError } from "rnix/plugin";
import type { FetchedPage } from "./fetch-page.ts";

export interface PageText {
  title: string;
  text: string;
}

/** Fails with INVALID for a type that has no text. */
export async function pageText({ url, type, body }: FetchedPage): Promise<PageText> {
  const media = mediaType(type, body);
  if (media === "application/pdf") return await pdfText(body);
  if (media === "text/html" || media === "application/xhtml+xml")
    return await htmlText(decoded(body, charsetOf(type) ?? declaredCharset(body)), url);
  if (media.startsWith("text/") || TEXTUAL.test(media))
    return { title: "", text: decoded(body, charsetOf(type)) };
  const message = `${url} is ${media}, which has no text. WebFetch reads HTML, JSON, text and PDF.`;
  throw new SyscallError("INVALID", message);
}

const TEXTUAL = /^application\/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|x-ndjson|x-sh)$/;

/** The type as it was sent. Without one, or with the type of any bytes, the first bytes decide. */
function mediaType(type: string, body: Uint8Array): string {
  const sent = (type.split(";")[0] ?? "").trim().toLowerCase();
  if (sent !== "" && sent !== "application/octet-stream") return sent;
  const start = decoded(body.subarray(0, 512), undefined);
  if (start.startsWith("%PDF-")) return "application/pdf";
  if (/^\s*<(?:!doctype html|html|head|body)/i.test(start)) return "text/html";
  return start.includes("\u{0}") || start.includes("\u{fffd}") ? "application/octet-stream" : "text/plain";
}

function charsetOf(type: string): string | undefined {
  return /charset\s*=\s*["']?([\w.:-]+)/i.exec(type)?.[1];
}

/** Of a `meta` element, which the HTML standard looks for in the first 1,024 bytes. */
function declaredCharset(body: Uint8Array): string | undefined {
  const head = new TextDecoder("latin1").decode(body.subarray(0, 1_024));
  return /<meta[^>]+charset\s*=\s*["']?([\w.:-]+)/i.exec(head)?.[1];
}

function decoded(body: Uint8Array, charset: string | undefined): string {
  // Byte order marks count before what the server says.
  const mark = Buffer.from(body.subarray(0, 2)).toString("hex");
  const marked = mark === "fffe" ? "utf-16le" : mark === "feff" ? "utf-16be" : null;
  try {
    return new TextDecoder(marked ?? charset ?? "utf-8").decode(body);
  } catch {
    // An unknown charset: its ASCII can be read.
    return new TextDecoder().decode(body);
  }
}

/** The article of a page as Markdown, or all of its body where no article is found. */
async function htmlText(html: string, url: string): Promise<PageText> {
  const [{ parseHTML }, { Readability }, { default: TurndownService }] = await Promise.all([
    import("linkedom"),
    import("@mozilla/readability"),
    import("turndown"),
  ]);
  // The parser makes no elements that a page may leave out.
  const { document } = parseHTML(/<html[\s>]/i.test(html) ? html : `<html><body>${html}</body></html>`);
  const title: string = document.querySelector("title")?.textContent?.trim() ?? "";
  for (const element of document.querySelectorAll(NOT_TEXT)) element.remove();
  absoluteLinks(document, url);
  const body: string = document.body?.innerHTML ?? "";
  // It changes the document.
  const article = new Readability(document, { charThreshold: 250 }).parse();
  const style = { headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" } as const;
  const turndown = new TurndownService(style);
  const content = article?.content ?? body;
  const text = turndown.turndown(parseHTML(`<html><body>${content}</body></html>`).document.body);
  return { title: article?.title?.trim() || title, text: text.replaceAll(/\n{3,}/g, "\n\n") };
}

const NOT_TEXT = "title, script, style, noscript, template, iframe, object, embed, svg, canvas";

/** What is used of the parsed document: linkedom has no types without those of a browser. */
interface PageElement {
  localName: string;
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
}
interface PageDocument {
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
}

/** Links work for a model only with their host. */
function absoluteLinks(document: PageDocument, url: string): void {
  const base = URL.parse(document.querySelector("base[href]")?.getAttribute("href") ?? "", url)?.href ?? url;
  for (const element of document.querySelectorAll("a[href], img[src]")) {
    const attribute = element.localName === "a" ? "href" : "src";
    const link = URL.parse(element.getAttribute(attribute) ?? "", base);
    // An address in the page itself, or data, is no use and can be long.
    if (link !== null && /^https?:$/.test(link.protocol)) element.setAttribute(attribute, link.href);
    else element.removeAttribute(attribute);
  }
}

async function pdfText(body: Uint8Array): Promise<PageText> {
  const { extractText, getDocumentProxy, getMeta } = await import("unpdf");
  const document = await getDocumentProxy(new Uint8Array(body), { verbosity: 0 });
  const { text } = await extractText(document, { mergePages: false });
  const { info } = await getMeta(document);
  const title = typeof info.Title === "string" ? info.Title : "";
  return { title, text: text.map((page, at) => `[page ${at + 1}]\n${page}`).join("\n\n") };
}
