import { describe, expect, test } from "bun:test";
import { timetableOf } from "../../src/cron/timetable.ts";
import { dayOf, instantOf } from "../../src/lib/time-zone.ts";

/** The instants of an expression in a period, as UTC times without their date's year. */
function instants(cron: string, tz: string, from: string, until: string): string[] {
  const table = timetableOf({ cron, tz }, 0);
  const found: string[] = [];
  for (let at = table.next(Date.parse(from)); at !== null && at < Date.parse(until); at = table.next(at))
    found.push(new Date(at).toISOString().slice(5, 16));
  return found;
}

describe("a change of the clocks", () => {
  // Zone, the day before the gap, the gap's end in UTC, and the local times in it.
  const gaps = [
    ["Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z", "30 2", "03-29T01:00"],
    ["Europe/London", "2026-03-28T12:00Z", "2026-03-29T12:00Z", "30 1", "03-29T01:00"],
    ["America/New_York", "2026-03-07T12:00Z", "2026-03-08T12:00Z", "30 2", "03-08T07:00"],
    ["Australia/Sydney", "2026-10-03T10:00Z", "2026-10-04T10:00Z", "30 2", "10-03T16:00"],
    ["Australia/Lord_Howe", "2026-10-03T10:00Z", "2026-10-04T10:00Z", "15 2", "10-03T15:30"],
  ] as const;

  test.each(gaps)("%s: a fixed time in the gap runs once, at its end", (tz, from, until, time, end) => {
    expect(instants(`${time} * * *`, tz, from, until)).toEqual([end]);
    const [minute, hour] = time.split(" ");
    // A list and a range without a wildcard are fixed times too.
    expect(instants(`${minute} ${hour} * * *`, tz, from, until)).toEqual([end]);
    expect(instants(`${minute},59 ${hour} * * *`, tz, from, until)[0]).toBe(end);
  });

  const folds = [
    ["Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T12:00Z", "30 2", "10-25T00:30"],
    ["Europe/London", "2026-10-24T12:00Z", "2026-10-25T12:00Z", "30 1", "10-25T00:30"],
    ["America/New_York", "2026-10-31T12:00Z", "2026-11-01T12:00Z", "30 1", "11-01T05:30"],
    ["Australia/Sydney", "2026-04-04T10:00Z", "2026-04-05T10:00Z", "30 2", "04-04T15:30"],
    ["Australia/Lord_Howe", "2026-04-04T10:00Z", "2026-04-05T10:00Z", "45 1", "04-04T14:45"],
  ] as const;

  test.each(folds)(
    "%s: a fixed time in the fold runs once, the first time",
    (tz, from, until, time, first) => {
      expect(instants(`${time} * * *`, tz, from, until)).toEqual([first]);
      const [minute, hour] = time.split(" ");
      expect(instants(`${minute} 0-5 * * *`, tz, from, until).filter((at) => at === first)).toHaveLength(1);
      expect(
        instants(`${minute} ${hour} * * *`, tz, first.length > 0 ? `2026-${first}Z` : from, until),
      ).toEqual([]);
    },
  );

  test("a wildcard follows the clock: it has as many instants as time passes", () => {
    const zones = [...gaps, ...folds].map(([tz, from, until]) => [tz, from, until] as const);
    for (const [tz, from, until] of zones) {
      const hours = (Date.parse(until) - Date.parse(from)) / 3_600_000;
      expect(instants("*/10 * * * *", tz, from, until)).toHaveLength(hours * 6 - 1);
    }
  });

  test("a wildcard within one hour has none in a gap and two rounds in a fold", () => {
    expect(instants("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-29T12:00Z")).toEqual([]);
    expect(instants("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-25T12:00Z")).toEqual([
      ...["10-25T00:00", "10-25T00:30"],
      ...["10-25T01:00", "10-25T01:30"],
    ]);
  });

  test("zones without a change, and with odd offsets", () => {
    expect(instants("0 9 * * *", "Asia/Kathmandu", "2026-03-28T00:00Z", "2026-03-30T12:00Z")).toEqual([
      ...["03-28T03:15", "03-29T03:15", "03-30T03:15"],
    ]);
    const year = instants("30 0 * * *", "America/Sao_Paulo", "2026-01-01T00:00Z", "2027-01-01T00:00Z");
    expect(year).toHaveLength(365);
    expect(year.every((at) => at.endsWith("T03:30"))).toBe(true);
  });

  test("the next instant does not depend on when it is asked for", () => {
    const zones = [...gaps, ...folds];
    for (const [tz, from, until, time] of zones) {
      for (const cron of [`${time} * * *`, "*/20 * * * *", "10,40 0-3 * * *", "5 */2 * * *", "0 0 2 * * *"]) {
        const table = timetableOf({ cron, tz }, 0);
        const all: number[] = [];
        for (
          let at = table.next(Date.parse(from));
          at !== null && at < Date.parse(until);
          at = table.next(at)
        )
          all.push(at);
        for (let at = Date.parse(from); at < Date.parse(until) - 86_400_000 / 4; at += 7 * 60_000 + 1) {
          const expected = all.find((one) => one > at);
          if (expected !== undefined)
            expect([tz, cron, at, table.next(at)]).toEqual([tz, cron, at, expected]);
        }
      }
    }
  });
});

describe("an expression", () => {
  test("has five fields, six with seconds, or a name", () => {
    const from = "2026-01-01T00:00Z";
    expect(instants("0 3 * * 1-5", "UTC", from, "2026-01-06T00:00Z")).toEqual([
      ...["01-01T03:00", "01-02T03:00", "01-05T03:00"],
    ]);
    expect(instants("*/20 0 0 * * *", "UTC", from, "2026-01-01T01:00Z")).toHaveLength(2);
    for (const name of ["@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually", "@hourly"])
      expect(timetableOf({ cron: name, tz: "UTC" }, 0).next(Date.parse(from))).toBeGreaterThan(0);
  });

  test("@every counts from the job's creation, whenever it is asked", () => {
    const created = Date.parse("2026-01-01T00:00:07Z");
    const table = timetableOf({ every: "15m" }, created);
    expect(table.next(created)).toBe(created + 900_000);
    expect(table.next(created + 900_000)).toBe(created + 1_800_000);
    expect(table.next(created + 1_000_000)).toBe(created + 1_800_000);
    // The clock went back behind its creation.
    expect(table.next(created - 5_000_000)).toBe(created + 900_000);
    expect(timetableOf({ cron: "@every 15m" }, created).next(created)).toBe(created + 900_000);
  });

  test("of both day fields is answered: either, as in every cron, and how to write both", () => {
    expect(timetableOf({ cron: "0 0 13 * 5", tz: "UTC" }, 0).warnings.join()).toContain(
      'write "0 0 13 * +5"',
    );
    expect(timetableOf({ cron: "0 0 */2 * 1", tz: "UTC" }, 0).warnings.join()).toContain("other crons");
    expect(instants("0 0 13 * +5", "UTC", "2026-01-01T00:00Z", "2027-01-01T00:00Z")).toEqual([
      ...["02-13T00:00", "03-13T00:00", "11-13T00:00"],
    ]);
    for (const plain of ["0 0 13 * *", "0 0 * * 5", "@daily", "0 0 13 * +5", "0 0 ? * MON", "@every 5m"])
      expect(timetableOf({ cron: plain, tz: "UTC" }, 0).warnings).toEqual([]);
  });

  test.each([
    ["60 0 * * *", "minute"],
    ["@reboot", "@reboot"],
    ["often", "Expected five fields"],
    ["0 0 0 1 1 * 2030", "it has 7 fields"],
    ["@every 5", "such as 5s"],
    ["@every 10ms", "at least 1s"],
  ])("%s is refused", (cron, says) => {
    expect(() => timetableOf({ cron }, 0)).toThrow(says);
  });

  test("a zone that is none is refused", () => {
    expect(() => timetableOf({ cron: "0 0 * * *", tz: "Mars/Base" }, 0)).toThrow("no time zone");
    expect(() => timetableOf({ cron: "@every 2h", tz: "Mars/Base" }, 0)).toThrow("no time zone");
  });
});

describe("a time", () => {
  test.each([
    ["2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00:00.000Z"],
    ["2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00.000Z"],
    ["2026-10-04T02:15", "Australia/Lord_Howe", "2026-10-03T15:30:00.000Z"],
    ["2027-01-05T09:00", "Asia/Kathmandu", "2027-01-05T03:15:00.000Z"],
    ["2027-01-05 09:00:30", "UTC", "2027-01-05T09:00:30.000Z"],
    ["2027-01-05", "America/New_York", "2027-01-05T05:00:00.000Z"],
    ["2027-01-05T09:00:00+02:00", "UTC", "2027-01-05T07:00:00.000Z"],
  ])("%s in %s is %s", (text, tz, iso) => {
    expect(new Date(instantOf(text, tz)).toISOString()).toBe(iso);
  });

  test.each(["tomorrow", "2026-02-30T00:00", "2026-01-01T25:00", "2026-13-01", ""])("%s is none", (text) => {
    expect(() => instantOf(text, "UTC")).toThrow("is no time");
  });

  test("a day is that of the zone", () => {
    expect(dayOf(Date.parse("2026-01-01T02:00Z"), "America/New_York")).toBe("2025-12-31");
    expect(dayOf(Date.parse("2026-01-01T18:30Z"), "Asia/Kathmandu")).toBe("2026-01-02");
  });
});
