import { describe, expect, test } from "bun:test";
import { checkedAddresses } from "../../../plugins/web/public-address.ts";

const never = async (): Promise<string[]> => {
  throw new Error("an address is not resolved");
};

describe("an address that is not public is refused, however it is written", () => {
  const urls = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://017700000001/",
    "http://①②⑦.0.0.1/",
    "http://0.0.0.0/",
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001::1]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[2001:db8::1]/",
    "http://[4000::1]/",
  ];
  test.each(urls)("%s", async (url) => {
    const refused = checkedAddresses(new URL(url).hostname, [], never);
    await expect(refused).rejects.toMatchObject({ code: "PERMISSION" });
  });

  test("a name by any one of its addresses", async () => {
    const resolve = async (): Promise<string[]> => ["1.1.1.1", "192.168.0.9"];
    const refused = checkedAddresses("both.example", [], resolve);
    await expect(refused).rejects.toMatchObject({
      code: "PERMISSION",
      message: expect.stringContaining("both.example has the address 192.168.0.9, which is not public"),
    });
  });
});

test.each(["1.1.1.1", "[2606:4700::1111]", "[::ffff:8.8.8.8]"])("%s is public", async (host) => {
  expect(await checkedAddresses(host, [], never)).toEqual([host.replace(/[[\]]/g, "")]);
});

describe("a listed address may be reached", () => {
  test.each([
    ["127.0.0.1", ["127.0.0.1"]],
    ["10.9.8.7", ["192.168.0.0/16", "10.0.0.0/8"]],
    ["[::1]", ["::1"]],
    ["[::ffff:10.0.0.1]", ["10.0.0.0/8"]],
  ])("%s by %j", async (host, listed) => {
    expect(await checkedAddresses(host, listed, never)).toHaveLength(1);
  });

  test("and no other one", async () => {
    const refused = checkedAddresses("127.0.0.2", ["127.0.0.1"], never);
    await expect(refused).rejects.toMatchObject({ code: "PERMISSION" });
  });

  test("what is listed must be an address: a name is refused", async () => {
    const refused = checkedAddresses("127.0.0.1", ["localhost"], never);
    await expect(refused).rejects.toMatchObject({ code: "INVALID" });
  });
});
