/** Formats what a model answered to one word, and what it cost. */

import type { TriedModelWire } from "../../protocol/methods.ts";
import { formatCost, formatElapsed, oneLine, plural } from "../output/format.ts";

const ANSWER_WIDTH = 40;

export function answeredText({ text, tokens, cost_usd, ms }: TriedModelWire): string {
  const cost = cost_usd === null ? "cost not known" : formatCost(cost_usd);
  return `It answered "${oneLine(text, ANSWER_WIDTH)}" after ${formatElapsed(ms)}: ${plural(tokens, "token")}, ${cost}.`;
}
