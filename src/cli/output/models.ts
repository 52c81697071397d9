/** Formats models with their windows and prices. */

import type { ModelWire } from "../../protocol/methods.ts";
import { formatCount } from "./format.ts";
import type { Column } from "./table.ts";

/** The columns of a list of models, behind its names. */
export const MODEL_FACTS: readonly Column<ModelWire>[] = [
  { title: "WINDOW", value: ({ context_window }) => formatWindow(context_window), right: true },
  { title: "INPUT", value: ({ price }) => formatUsd(price?.input), right: true },
  { title: "CACHED", value: ({ price }) => formatUsd(price?.cached), right: true },
  { title: "OUTPUT", value: ({ price }) => formatUsd(price?.output), right: true },
];

/** "1M context, $2 in, $10 out per million tokens"; "" when nothing is known. */
export function modelFactsText({ context_window, price }: ModelWire): string {
  const window = context_window === null ? [] : [`${formatWindow(context_window)} tokens`];
  const cost =
    price === null ? [] : [`${formatUsd(price.input)} in, ${formatUsd(price.output)} out per million`];
  return [...window, ...cost].join(", ");
}

function formatWindow(tokens: number | null): string {
  return tokens === null ? "-" : formatCount(tokens).replace(".0M", "M");
}

/** Prices are shown as their service states them: $2, $0.25. */
function formatUsd(usd: number | undefined): string {
  return usd === undefined ? "-" : `$${usd}`;
}
