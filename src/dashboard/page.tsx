/** The dashboard's page: its frame, its address, and the view that the address names. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { History } from "./history.tsx";
import { Now } from "./now.tsx";
import { follow, lostSince, now } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { RunView } from "./run-view.tsx";

/** `#/`, `#/history`, or `#/run/UUID/VIEW/STEP`. */
const address = signal(location.hash);
addEventListener("hashchange", () => {
  const [before, after] = [address.value.split("/"), location.hash.split("/")];
  address.value = location.hash;
  if (before[1] !== after[1] || before[2] !== after[2]) scrollTo(0, 0);
});

function viewOf([, view, uuid, part = "steps", chosen]: string[]) {
  if (view === "run" && uuid) return <RunView key={uuid} uuid={uuid} view={part} chosen={chosen} />;
  return view === "history" ? <History /> : <Now />;
}

function Page() {
  return (
    <>
      <header>
        <a class="name" href="#/">
          Rnix
        </a>
        <nav aria-label="Views">
          <a href="#/">Now</a> <a href="#/history">History</a>
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
