import { describe, expect, test } from "bun:test";
import { hostRules, isLimited, withinParent } from "../../src/proxy/host-rules.ts";

const resolve = async (): Promise<string[]> => ["93.184.216.34"];

test.each([
  [["example.com"], "example.com", 443, true],
  [["example.com"], "EXAMPLE.com.", 443, true],
  [["example.com"], "www.example.com", 443, false],
  [["*.example.com"], "a.b.example.com", 80, true],
  [["*.example.com"], "example.com", 80, false],
  [["*.example.com"], "badexample.com", 80, false],
  [["example.com:443"], "example.com", 80, false],
  [["a.org,example.com:80"], "example.com", 80, true],
  [["*"], "anything.org", 1, true],
  [["*"], "8.8.8.8", 53, true],
  [["*"], "169.254.169.254", 80, false],
  [["10.0.0.0/8"], "10.1.2.3", 22, true],
  [["10.0.0.0/8"], "11.1.2.3", 22, false],
  [["[::1]:80"], "::1", 80, true],
  [["[::1]:80"], "::1", 81, false],
  [["off"], "example.com", 443, false],
])("%j: %s:%d %p", async (network, host, port, allowed) => {
  expect((await (await hostRules(network, resolve)).decide(host, port)).allowed).toBe(allowed);
});

test("an address is what was checked: a name with one address that is not public is refused", async () => {
  const rules = await hostRules(["a.org", "10.0.0.1"], async () => ["93.184.216.34", "10.0.0.2"]);
  expect(await rules.decide("a.org", 80)).toMatchObject({ allowed: false, entry: "10.0.0.2" });
});

describe("the option", () => {
  test.each([[undefined], [[]], [["on"]]])("%j limits nothing", (network) => {
    expect(isLimited(network)).toBe(false);
  });
  test.each(["off,on", "http://a.org", "a b", "a.org:0", "*.*", "1.2.3", "-a", "a..b", ","])(
    "%j is refused",
    (value) => {
      expect(() => isLimited([value])).toThrow("network: ");
    },
  );
});

test.each([
  [undefined, ["a.org"], ["a.org"]],
  [["a.org"], undefined, ["a.org"]],
  [["a.org"], ["on"], ["a.org"]],
  [["off"], ["a.org"], ["off"]],
  [["a.org", "b.org"], ["b.org", "c.org"], ["b.org"]],
  [["*.a.org"], ["x.a.org:443", "a.org"], ["x.a.org:443"]],
  [["x.a.org"], ["*.a.org"], ["x.a.org"]],
  [["a.org:80"], ["a.org"], ["a.org:80"]],
])("a child of %j that asks for %j reaches %j", (parent, own, expected) => {
  expect(withinParent(parent, own)).toEqual(expected);
});
