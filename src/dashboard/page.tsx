/** The dashboard's page: its frame, its address, and the view that the address names. */

import { signal } from "@preact/signals";
import { type ComponentType, render } from "preact";
import { Asks } from "./ask-card.tsx";
import { History } from "./history.tsx";
import { Jobs } from "./jobs-view.tsx";
import { Now } from "./now.tsx";
import { asks, follow, lostSince, now } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { Memory, ProjectParts } from "./project-view.tsx";
import { RunView } from "./run-view.tsx";

/** `#/VIEW`, or `#/run/UUID/VIEW/STEP`. */
const address = signal(location.hash);
addEventListener("hashchange", () => {
  const [before, after] = [address.value.split("/"), location.hash.split("/")];
  address.value = location.hash;
  if (before[1] !== after[1] || before[2] !== after[2]) scrollTo(0, 0);
});

/** By their part of the address, as the menu names them. */
const VIEWS: Record<string, { title: string; view: ComponentType }> = {
  "": { title: "Now", view: Now },
  history: { title: "History", view: History },
  asks: { title: "Asks", view: Asks },
  schedules: { title: "Schedules", view: Jobs },
  memory: { title: "Memory", view: Memory },
  parts: { title: "Plugins and servers", view: ProjectParts },
};

function viewOf([, view, uuid, part = "steps", chosen]: string[]) {
  if (view === "run" && uuid) return <RunView key={uuid} uuid={uuid} view={part} chosen={chosen} />;
  const View = VIEWS[view ?? ""]?.view ?? Now;
  return <View />;
}

function Page() {
  const [, view = ""] = address.value.split("/");
  return (
    <>
      <header>
        <a class="name" href="#/">
          Rnix
        </a>
        <nav aria-label="Views">
          {Object.entries(VIEWS).map(([name, { title }]) => (
            <a key={name} href={`#/${name}`} aria-current={name === view ? "page" : undefined}>
              {title}
              {name === "asks" && asks.value.length > 0 && ` (${asks.value.length})`}
            </a>
          ))}
        </nav>
        {lostSince.value !== null && (
          <p role="alert" class="lost">
            The daemon has not answered for {elapsed(now.value - lostSince.value)}: what follows is from
            before. Run rnix dashboard again if it has ended.
          </p>
        )}
      </header>
      <main>{viewOf(address.value.split("/"))}</main>
    </>
  );
}

follow();
render(<Page />, document.body);
