/** Markdown as models write it, for the tests of its rendering. */

const ANSWER = `# The fault

The test **fails** because \`total()\` returns \`null\` for an *empty* list; see [the manual](https://example.org/a/b?c=d) and <https://example.org>.

## What I changed

1. \`src/total.ts\`: returns \`0\` for an empty list, and ~~throws~~ warns for one with strings in it.
2. A test for it:

   \`\`\`ts
   test("an empty list", () => {
     expect(total([])).toBe(0); // was null
   });
   \`\`\`

3. The **documentation**
   - the table of functions
     - and its example
   - the changelog

- [x] types
- [ ] release

| File | Change | Lines |
|:-----|:------:|------:|
| \`src/total.ts\` | returns zero for an empty list | 12 |
| \`test/total.test.ts\` | new test | 1 |

> Note that **strings** are still refused.
> They were before.

---

Done.`;

const LOOSE = `Steps:

* First of all, a paragraph
  over two lines

  and a second paragraph

* Second

      indented code

* Third
Lazy continuation of the third item
+ another list
+ of two

10) ten
11) eleven
7) twelve, whatever is written

Setext heading
==============
Second one
---
text *** not a rule
***
| a |
|---|
| 1 |
after the table

    indented

    code after an empty line
text`;

const CODE = `\`\`\`python
def f(x):
    """A docstring
    over lines"""
    return x  # comment
\`\`\`
\`\`\`\`markdown
\`\`\`js
nested
\`\`\`
\`\`\`\`
~~~sh
for f in *.ts; do echo "$f"; done
~~~
\`\`\`go
func main() {
	fmt.Println(\`raw
string\`, 0x1f, 'c')
}
\`\`\`
\`\`\`rust
fn main() -> Result<(), Box<dyn Error>> { let x = 1_000; /* block
comment */ Ok(()) }
\`\`\`
\`\`\`json
{"key": [1, 2.5e3, true, null], "long": "${"x".repeat(150)}"}
\`\`\`
\`\`\`yaml
# comment
name: "rnix"
list:
  - on: push
\`\`\`
\`\`\`diff
--- a/x
+++ b/x
@@ -1 +1 @@
-old
+new
\`\`\`
\`\`\`unknown-language
text
\`\`\`
an unclosed one:
\`\`\`ts
const x = 1;`;

const HOSTILE = `# \u001b[31mred\u001b[0m \u001b]0;title\u0007heading
\u001b[2J\u001b[Hcleared &#27;[31m &#x9b;2J \u009b2J [text](https://evil.example/\u001b]52;c;eA==\u0007)
[hidden](javascript:alert(1)) \u001b]8;;https://evil.example\u001b\\click\u001b]8;;\u001b\\ \u202etxt.exe\u202c
<script>alert("\u001b[31m")</script>
![image\u001b[31m](file:///etc/passwd "\u0007")
\`\`\`sh\u001b[31m
echo \u001b[?1049h \u0007 \rover
\`\`\`
| \u001b[5m a | b\u0008\u0008 |
|---|---|
| \u001bPq\u001b\\ x | \u001b_G\u001b\\ y |
Tabs\tand\tmore \u0000 \u007f`;

const SCRIPTS = `# שלום עולם

مرحبا بالعالم and **English** with 日本語の文章がここにあります。とても長いので折り返す必要があります。

- 한국어 문장입니다 그리고 조금 더 깁니다
- emoji 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 ⚠️ and e\u0301 combining
- नमस्ते दुनिया

| שם | 値 |
|---|---|
| ערך | とても長い値がここにあります |`;

const WORDS = `${"A long paragraph of many words that must be wrapped again and again. ".repeat(12)}

${"unbreakable".repeat(20)}

- ${"item words ".repeat(20)}
  - ${"nested words ".repeat(20)}
    - ${"deep ".repeat(30)}
      1. ${"deeper ".repeat(30)}
         > ${"quoted ".repeat(30)}`;

const UNFINISHED = `Text with **bold that never ends and \`code

- item
-
1.

|a|b
|-|-
|1|2|3|
<div>

html **not** parsed
</div>
<!-- comment

over lines -->
[ref]: https://example.org
[ref] and [other][ref]\\
hard  \nbreak &amp; &lt; &copy; \\*escaped\\*
#no heading
####### seven
# #
>quote without space
lazy
>> nested

>
> - list in quote
>   \`\`\`
>   code
>   \`\`\`
\tindented by a tab`;

export const SAMPLES: Readonly<Record<string, string>> = {
  ANSWER,
  LOOSE,
  CODE,
  HOSTILE,
  SCRIPTS,
  WORDS,
  UNFINISHED,
  EMPTY: "",
  NEWLINES: "\n\n\r\n a\r\n\r\nb\r\n",
};
