/** Draws a live region and does what its keys say, for the tests of screen and keyboard. Run at a terminal. */

import { systemIo } from "../../../../src/cli/system/system.ts";
import { Keyboard } from "../../../../src/cli/terminal/keyboard.ts";
import { Screen } from "../../../../src/cli/terminal/screen.ts";
import { realClock } from "../../../../src/lib/clock.ts";

const io = systemIo();
const screen = Screen.open(io, { clock: realClock, full: process.argv.includes("--full") });
let typed = "";
let commits = 0;
let cursor = false;

const actions: Readonly<Record<string, () => void>> = {
  c: () => screen.commit([`committed ${++commits}`]),
  C: () => {
    cursor = !cursor;
  },
  t: () => screen.title(`title ${commits}`),
  q: () => void end(),
  e: () => process.exit(3),
  x: () => {
    setTimeout(() => {
      throw new Error("a crash");
    });
  },
  u: () => void Promise.reject(new Error("a rejection")),
  K: () => process.kill(process.pid, "SIGKILL"),
  // A loop that is busy reads no keys.
  B: () => Bun.sleepSync(500),
  s: () =>
    void screen.suspendFor(async () => {
      const editor = Bun.spawn(["sh", "-c", 'echo editor; read line; echo "got $line"'], {
        stdin: "inherit",
        stdout: "inherit",
        stderr: "inherit",
      });
      await editor.exited;
    }),
};

const keyboard = Keyboard.open(io, {
  key(data) {
    const action = actions[data];
    if (action) action();
    else typed += JSON.stringify(data);
    screen.redraw();
  },
  paste(text) {
    typed += `paste ${JSON.stringify(text)}`;
    screen.redraw();
  },
});

screen.show(({ columns, rows }) => ({
  lines: [
    "=".repeat(columns),
    `live ${columns}x${rows}`,
    `typed ${typed}`,
    "> input",
    "foot ".repeat(columns / 5),
  ],
  ...(cursor && { cursor: { row: 3, column: 2 } }),
}));

if (process.argv.includes("--handle-int")) {
  process.on("SIGINT", () => {
    screen.commit(["interrupted"]);
  });
}

const alive = setInterval(() => undefined, 60_000);

async function end(): Promise<void> {
  clearInterval(alive);
  keyboard?.close();
  await screen.close(["the end"]);
  process.exit(0);
}
