/** A text that is being typed, with the pastes that its markers stand for. */

export const PASTE_MARKER = /\[paste #(\d+) (?:\+\d+ lines|\d+ chars)\]/g;

/** Text with its pastes, as it can be put back into the line. */
export interface Draft {
  /** With a marker for each long paste. */
  shown: string;
  pastes: ReadonlyMap<number, string>;
}

export function expanded({ shown, pastes }: Draft): string {
  return shown.replace(PASTE_MARKER, (marker, number) => pastes.get(Number(number)) ?? marker);
}

/** Several drafts as one; null where there is none. Pastes are written out where their numbers would collide. */
export function joined(some: readonly (Draft | null)[]): Draft | null {
  const drafts = some.filter((draft) => draft !== null);
  if (drafts.length === 0) return null;
  const withPastes = drafts.filter(({ pastes }) => pastes.size > 0);
  const shown = drafts
    .map((draft) => (withPastes.length > 1 ? expanded(draft) : draft.shown).trim())
    .join("\n");
  return { shown, pastes: withPastes.length === 1 ? (withPastes[0]?.pastes ?? new Map()) : new Map() };
}
