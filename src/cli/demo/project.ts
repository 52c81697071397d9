/** The files of the project that `rnix demo` works on. */

/** sh only, so that it runs wherever rnix runs. The bug: the list's last line has no newline, and `read` drops it. */
export const FILES: Readonly<Record<string, string>> = {
  "prices.txt": "apples 12\nbread 7\ncheese 23",
  "total.sh": `# Prints the sum of the prices in prices.txt.
total=0
while read -r name price; do
  total=$((total + price))
done < prices.txt
echo "$total"
`,
  "test.sh": `# The project's own test.
got=$(sh total.sh)
if [ "$got" = 42 ]; then
  echo "PASS: the total is 42"
else
  echo "FAIL: expected 42, got $got"
  exit 1
fi
`,
};

export const INTENT = "The test fails: find the bug and fix it.";
export const TEST = "sh test.sh";
export const BROKEN_FILE = "total.sh";

const BROKEN = "while read -r name price; do";
const FIXED = 'while read -r name price || [ -n "$name" ]; do';

/** What the replay driver says in place of a model. Its tool calls are made for real; paths are relative. */
export const SCRIPT = {
  responses: [
    {
      text: "I will look at the failing test first, then at the code it tests.",
      tool_calls: [
        {
          name: "Plan",
          input: {
            steps: [
              "Run the test and see how it fails",
              "Read the code",
              "Fix the bug",
              "Run the test again",
            ],
          },
        },
      ],
    },
    { tool_calls: [{ name: "Bash", input: { command: TEST } }] },
    {
      text: "42 are expected and 19 come out: the 23 of the last line are missing.",
      tool_calls: [
        { name: "Read", input: { path: "total.sh" } },
        { name: "Bash", input: { command: "wc -l prices.txt" } },
      ],
    },
    {
      text: "Three prices and two newlines: the last line ends without one. Then `read` fills its variables but fails, and the loop ends before the last price is added. The loop must go on when a name was read.",
      tool_calls: [{ name: "Edit", input: { path: "total.sh", old_string: BROKEN, new_string: FIXED } }],
    },
    { text: "Now the test again.", tool_calls: [{ name: "Bash", input: { command: TEST } }] },
    {
      text: "Fixed. total.sh dropped the last price because prices.txt ends without a newline; it now counts a line that was read without one. The test passes.",
    },
  ],
};
