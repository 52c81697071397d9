/** Shows the user's messages in the transcript when the model reads them, as they were typed. */

import type { StreamEvent } from "../../protocol/methods.ts";
import type { Outbox } from "./outbox.ts";

export class MessageEvents {
  readonly #outbox: Outbox;
  /** Texts whose log entry is still to come: they are shown already. */
  #shown: string[] = [];

  constructor(outbox: Outbox) {
    this.#outbox = outbox;
  }

  /** The events that the view gets for one of the stream. */
  take(event: StreamEvent): StreamEvent[] {
    if (event.type === "progress" && event.payload.event === "message") {
      const { payload } = event;
      const shown = this.#outbox.shownText(payload);
      this.#outbox.take(payload);
      if (payload.state !== "read") return [event];
      this.#shown.push(payload.text);
      const ts = new Date().toISOString();
      return [event, { type: "log_entry", payload: { ts, step: 0, kind: "inbox", text: shown } }];
    }
    return event.type === "log_entry" && event.payload.kind === "inbox" ? this.#unshown(event) : [event];
  }

  /** The log repeats messages that are shown already. */
  #unshown(event: Extract<StreamEvent, { type: "log_entry" }>): StreamEvent[] {
    let { text } = event.payload;
    for (const shown of this.#shown.splice(0)) text = text.replace(shown, () => "");
    return text.trim() === "" ? [] : [{ ...event, payload: { ...event.payload, text } }];
  }
}
