import { expect, setDefaultTimeout, test } from "bun:test";
import { everyOrder } from "../../support/every-order.ts";
import { calls, says } from "../../support/kernel.ts";
import { soak } from "../../support/soak.ts";
import { background, monitor, type Scene, UnitStage } from "../../support/unit-stage.ts";

setDefaultTimeout(60_000);

const SCENES: [string, Scene][] = [
  [
    "two commands, while the agent works and then waits",
    {
      commands: ["build a", "build b"],
      answers: [
        calls(background("build a"), background("build b")),
        calls(["DaemonList", {}]),
        says("waiting"),
      ],
    },
  ],
  [
    "a monitor's line and its end",
    { commands: ["watch m"], answers: [calls(monitor("watch m")), says("waiting")] },
  ],
  [
    "a command of a parked run",
    {
      commands: ["build a"],
      answers: [calls(background("build a")), says("waiting")],
      opts: { on_units: "park" },
    },
  ],
  ...soak(["interrupt"] as const, ["say", "interrupt"] as const).map((act): [string, Scene] => [
    `a command of a chat, beside a user who does "${act}"`,
    {
      commands: ["build a"],
      answers: [calls(background("build a")), says("waiting")],
      opts: { chat: true },
      user: [act],
    },
  ]),
];

// The first has the most orders, and the one with a user who says something the next most.
test.each(soak(SCENES.slice(1), SCENES))("in every order, each report is read once: %s", async (_, scene) => {
  // The first play loads what later ones have: that takes a time of its own.
  const warm = new UnitStage(scene);
  await warm.play(([first = ""]) => first);
  await warm[Symbol.asyncDispose]();
  const orders = await everyOrder(async (choose) => {
    await using stage = new UnitStage(scene);
    await stage.play(choose);
    await stage.requireOnce();
  });
  expect(orders).toBeGreaterThan(9);
});
