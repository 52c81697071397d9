/** The method export_html: a run as an HTML file. */

import { Page, Target } from "../../protocol/fields.ts";
import { htmlHead, htmlStep } from "../records/run-html.ts";
import { method } from "./method.ts";
import { requireDescendant } from "./shared/find-own-run.ts";
import { findRun, isLive, recordsOf, requireAgent } from "./shared/find-run.ts";
import { receiptOf } from "./shared/receipt.ts";

const PAGE = 100;

interface HtmlPage {
  html: string;
  /** The `after` of the next page; null after the last. */
  next: number | null;
}

/** Exports a run as one HTML file, some steps at a time: the pages one after another are the file. */
export const exportHtml = method({
  payload: () => Target().extend(Page()),
  async handle({ after = 0, limit = PAGE, ...target }, services, caller): Promise<HtmlPage> {
    const found = await findRun(services, target);
    requireDescendant(services, caller.unit(), found, "exported");
    requireAgent(found, "exported");
    const run = await recordsOf(services, found);
    const { info, records } = run;
    const page = await records.steps(info.uuid, { after, limit });
    const steps = page.records.map((record) => htmlStep(record, info.cwd)).join("");
    const next = page.next.after === after || page.records.length < limit ? null : page.next.after;
    if (after > 0) return { html: steps, next };
    const [meta, diff] = await Promise.all([
      records.meta(info.uuid),
      (await services.changes()).diff(run, { files: [], patch: true }, isLive(found)),
    ]);
    return { html: htmlHead(info.intent, receiptOf(info), meta?.system_prompt ?? "", diff) + steps, next };
  },
});
