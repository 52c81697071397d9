/** The dashboard's page: its frame, its address, and the view that the address names. */

import { signal } from "@preact/signals";
import { render } from "preact";
import { History } from "./history.tsx";
import { Now } from "./now.tsx";
import { follow, lostSince, now } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { RunView } from "./run-view.tsx";

/** `#/` or `#/run/UUID`. */
const address = signal(location.hash);
addEventListener("hashchange", () => {
  address.value = location.hash;
  scrollTo(0, 0);
});

function viewOf(view: string | undefined, uuid: string | undefined) {
  if (view === "run" && uuid) return <RunView key={uuid} uuid={uuid} />;
  return view === "history" ? <History /> : <Now />;
}

function Page() {
  const [, view, uuid] = address.value.split("/");
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
      <main>{viewOf(view, uuid)}</main>
    </>
  );
}

follow();
render(<Page />, document.body);
