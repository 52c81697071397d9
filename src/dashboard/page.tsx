/** The dashboard's page: its frame, its address, and the view that the address names. */

import { signal } from "@preact/signals";
import { render } from "preact";
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

function Page() {
  const [, view, uuid] = address.value.split("/");
  return (
    <>
      <header>
        <a class="name" href="#/">
          Rnix
        </a>
        {lostSince.value !== null && (
          <p role="alert" class="lost">
            The daemon has not answered for {elapsed(now.value - lostSince.value)}: what follows is from
            before. Run rnix dashboard again if it has ended.
          </p>
        )}
      </header>
      <main>{view === "run" && uuid ? <RunView key={uuid} uuid={uuid} /> : <Now />}</main>
    </>
  );
}

follow();
render(<Page />, document.body);
