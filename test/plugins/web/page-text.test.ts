import { describe, expect, test } from "bun:test";
import { readPage } from "../../../plugins/web/page-reader.ts";
import type { PageText } from "../../../plugins/web/page-text.ts";

const ARTICLE = `<!doctype html><html><head><title>Pears &amp; apples</title></head><body>
<nav><a href="/">Home</a> <a href="/login">Log in</a></nav>
<article><h1>Pears</h1>${"<p>A pear is a fruit that ripens after it was picked, unlike many others.</p>".repeat(6)}
<p>See <a href="../apples?x=1">apples</a>.</p><pre><code>const pear = 1;</code></pre>
<img src="pear.png" alt="a pear"><script>alert(1)</script></article>
<footer>Imprint</footer></body></html>`;

function read(
  body: string | Uint8Array,
  type: string,
  signal = new AbortController().signal,
): Promise<PageText> {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  return readPage({ url: "https://fruit.example/a/pears", type, body: bytes, truncated: false }, signal);
}

describe("the text of a page", () => {
  test("is its article as Markdown, with whole links, without scripts and menus", async () => {
    const { title, text } = await read(ARTICLE, "text/html; charset=utf-8");
    expect(title).toBe("Pears & apples");
    expect(text).toContain("A pear is a fruit that ripens");
    expect(text).toContain("[apples](https://fruit.example/apples?x=1)");
    expect(text).toContain("```\nconst pear = 1;\n```");
    expect(text).toContain("![a pear](https://fruit.example/a/pear.png)");
    for (const absent of ["alert(1)", "Log in", "Imprint"]) expect(text).not.toContain(absent);
  });

  test.each([
    ["a short page", "<p>Only <b>this</b>.</p>", "Only **this**."],
    ["a page without html and body", "<title>T</title><h1>Hi</h1><p>so", "## Hi\n\nso"],
    ["an empty page", "", ""],
  ])("of %s is all of its body", async (_, html, expected) => {
    expect((await read(html, "text/html")).text).toBe(expected);
  });

  test.each([
    ["the header", "text/html; charset=ISO-8859-1", "<p>f\u{fc}r"],
    ["its meta element", "text/html", '<meta charset="windows-1252"><p>f\u{fc}r'],
  ])("is decoded by %s", async (_, type, html) => {
    expect((await read(Buffer.from(html, "latin1"), type)).text).toBe("für");
  });

  test.each([
    ["application/json", '{"a": 1}'],
    ["application/ld+json", '{"a": 1}'],
    ["text/plain", "plain <b>text</b>"],
    ["text/markdown; charset=utf-8", "# Title"],
    ["application/xml", "<a/>"],
    ["", "no type at all"],
  ])("of %s is unchanged", async (type, body) => {
    expect(await read(body, type)).toEqual({ title: "", text: body });
  });

  test("of a PDF is that of its pages", async () => {
    expect((await read(PDF, "application/pdf")).text).toBe("[page 1]\nPears ripen late");
    expect((await read(PDF, "application/octet-stream")).text).toContain("Pears ripen late");
  });
});

describe("what has no text is refused by name", () => {
  test.each([
    ["image/png", "\u{0}\u{0}", "is image/png, which has no text"],
    ["application/octet-stream", "\u{0}\u{1}", "is application/octet-stream"],
    ["application/zip", "PK", "is application/zip"],
    ["application/pdf", "%PDF-1.4 broken", "can't be read as application/pdf"],
  ])("%s", async (type, body, message) => {
    await expect(read(body, type)).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining(message),
    });
  });
});

describe("a hostile page is left at the call's deadline, whatever its Worker does", () => {
  test.each([
    ["open elements", "<div>".repeat(1_000_000)],
    ["open inline elements", `<p>${"<b><i>".repeat(300_000)}`],
    ["tables in tables", "<table>".repeat(20_000)],
  ])("%s", async (_, html) => {
    const reading = read(html, "text/html", AbortSignal.timeout(400));
    await expect(reading).rejects.toMatchObject({ name: "TimeoutError" });
  });
});

const PDF = `%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 45>>stream
BT /F1 18 Tf 20 50 Td (Pears ripen late) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
trailer<</Root 1 0 R>>
%%EOF`;
