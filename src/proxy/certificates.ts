/** Makes the certificates with which the proxy opens TLS: an authority for one run, and a certificate for each host. */

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";

/** A certificate and its key, in PEM. */
export interface Certificate {
  cert: string;
  key: string;
}

const HOUR_MS = 3_600_000;
/** Longer than any run that keeps one network. */
const VALID_MS = 365 * 24 * HOUR_MS;
const NAME = "Rnix, for one run";

// DER, the encoding of X.509: a tag, a length, and a content.

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const octets = (content: Uint8Array): Buffer => der(0x04, content);
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const bits = (unused: number, content: Uint8Array): Buffer => der(0x03, Buffer.from([unused]), content);
const YES = der(0x01, Buffer.from([0xff]));

const ECDSA_SHA256 = sequence(oid("2a8648ce3d040302"));
const COMMON_NAME = oid("550403");
const SERVER_AUTH = oid("2b06010505070301");

function nameOf(text: string): Buffer {
  return sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(text)))));
}

/** `YYMMDDHHMMSSZ`: for years before 2050. */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "");
  return der(0x17, Buffer.from(digits.slice(2)));
}

function extension(id: string, value: Uint8Array, isCritical = false): Buffer {
  return sequence(oid(`551d${id}`), ...(isCritical ? [YES] : []), octets(value));
}

/** The names of the extensions of a certificate (RFC 5280, 4.2.1). */
const extensions = {
  isAuthority: () => extension("13", sequence(YES, der(0x02, Buffer.from([0]))), true),
  isServer: () => extension("13", sequence(), true),
  signsCertificates: () => extension("0f", bits(1, Buffer.from([0x06])), true),
  signsData: () => extension("0f", bits(7, Buffer.from([0x80])), true),
  authenticatesServers: () => extension("25", sequence(SERVER_AUTH)),
  ownKey: (id: Uint8Array) => extension("0e", octets(id)),
  authorityKey: (id: Uint8Array) => extension("23", sequence(der(0x80, id))),
  host: (host: string) =>
    extension("11", sequence(isIP(host) ? der(0x87, addressBytes(host)) : der(0x82, Buffer.from(host)))),
};

function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number));
  const { hostname } = new URL(`http://[${address}]`);
  const [head = "", tail = ""] = hostname.slice(1, -1).split("::");
  const groups = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const [before, after] = [groups(head), groups(tail)];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return Buffer.from([...before, ...zeros, ...after].map((group) => group.padStart(4, "0")).join(""), "hex");
}

interface Subject {
  name: Buffer;
  publicKey: KeyObject;
  extensions: readonly Buffer[];
}

function keyId(key: KeyObject): Buffer {
  const spki = key.export({ type: "spki", format: "der" });
  return createHash("sha1").update(spki).digest();
}

function keys(): { publicKey: KeyObject; privateKey: KeyObject } {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

/** The authority of one run. Its key is in memory only. */
export class RunAuthority {
  readonly #keys = keys();
  readonly #now: number;
  /** Its certificate, in PEM. */
  readonly cert: string;

  constructor(now: number) {
    this.#now = now;
    const { publicKey } = this.#keys;
    const { isAuthority, signsCertificates, ownKey } = extensions;
    this.cert = this.#signed({
      name: nameOf(NAME),
      publicKey,
      extensions: [isAuthority(), signsCertificates(), ownKey(keyId(publicKey))],
    });
  }

  /** A certificate for a name or an address. */
  certificateOf(host: string): Certificate {
    const { publicKey, privateKey } = keys();
    const { isServer, signsData, authenticatesServers, ownKey, authorityKey } = extensions;
    const cert = this.#signed({
      name: nameOf(host.slice(0, 64)),
      publicKey,
      extensions: [
        isServer(),
        signsData(),
        authenticatesServers(),
        ownKey(keyId(publicKey)),
        authorityKey(keyId(this.#keys.publicKey)),
        extensions.host(host),
      ],
    });
    return { cert, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
  }

  #signed({ name, publicKey, extensions: own }: Subject): string {
    const serial = randomBytes(16);
    // Positive, and not zero.
    serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f);
    const body = sequence(
      der(0xa0, der(0x02, Buffer.from([2]))),
      der(0x02, serial),
      ECDSA_SHA256,
      nameOf(NAME),
      sequence(time(this.#now - HOUR_MS), time(this.#now + VALID_MS)),
      name,
      publicKey.export({ type: "spki", format: "der" }),
      der(0xa3, sequence(...own)),
    );
    const signature = sign("sha256", body, this.#keys.privateKey);
    const text = sequence(body, ECDSA_SHA256, bits(0, signature)).toString("base64");
    return `-----BEGIN CERTIFICATE-----\n${text.replace(/.{64}(?=.)/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
  }
}
