/** A run as an HTML file that is sent while it is made. */

import type { Caller } from "../connection/connection.ts";
import { exportHtml } from "../methods/export-html.ts";
import type { Services } from "../services.ts";

/** Fails before the first byte if the run can't be exported. */
export async function exportStream(
  uuid: string,
  services: Services,
  caller: Caller,
): Promise<ReadableStream<Uint8Array>> {
  const encoder = new TextEncoder();
  let page = await exportHtml.handle({ uuid }, services, caller);
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(encoder.encode(page.html));
      if (page.next === null) controller.close();
      else page = await exportHtml.handle({ uuid, after: page.next }, services, caller);
    },
  });
}
