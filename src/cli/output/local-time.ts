/** Formats a time in the zone of the user. */

/** A local time, to the second. For an invalid date in a record, the nearest valid one. */
export function localTime(said: number): string {
  const ms = Math.max(0, Math.min(said, LAST_DATE));
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** 9999-12-30, the last date with four digits for the year in all time zones. */
const LAST_DATE = Date.UTC(9999, 11, 30);
