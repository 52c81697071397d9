import { describe, expect, test } from "bun:test";
import { visible, visibleWords } from "../../src/plugin/visible.ts";

describe("a text that a person decides on", () => {
  test.each([
    ["npm test", "npm test"],
    ["prüfe 日本語 👩 ✓", "prüfe 日本語 👩 ✓"],
    ["a\n\tb\r", "a\\n\\tb\\r"],
    ["a\u001b]0;rm x;\u0007b", "a\\u{1b}]0;rm x;\\u{07}b"],
    ["a\u009b2Kb\u007f", "a\\u{9b}2Kb\\u{7f}"],
    ["a\u202eb\u2066\u200e\u061c", "a\\u{202e}b\\u{2066}\\u{200e}\\u{61c}"],
    ["a\u200bb\u00adc\ufeffd\u{e0041}", "a\\u{200b}b\\u{ad}c\\u{feff}d\\u{e0041}"],
    ["a\u2028b\u00a0c\u3000d", "a\\u{2028}b\\u{a0}c\\u{3000}d"],
    ["a\ud800b", "a\\u{d800}b"],
  ])("shows all of %j", (text, shown) => expect(visible(text)).toBe(shown));

  test("quotes the words of a command where a shell would see more in them", () => {
    expect(visibleWords(["npx", "-y", "@scope/name@1.2", "--port=1"])).toBe(
      "npx -y @scope/name@1.2 --port=1",
    );
    expect(visibleWords(["sh", "-c", "a; b 'c'\n", ""])).toBe("sh -c 'a; b '\\''c'\\''\\n' ''");
  });
});
