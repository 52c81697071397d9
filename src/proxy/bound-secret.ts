/** A secret that programs know by a placeholder, and that the proxy sends to its hosts only. */

export interface BoundSecret {
  /** The variable of the programs. */
  name: string;
  value: string;
  /** As the user lists them: `example.com`, `*.example.com`, `example.com:8443`. Without a port: 443. */
  hosts: readonly string[];
}

/** What programs have in place of the value. It is the same in every run, so that prompts and records don't change. */
export function placeholderOf({ name }: Pick<BoundSecret, "name">): string {
  return `rnix-secret-${name}`;
}

/**
 * The headers with the secrets in place of their placeholders, also within the base64 of Basic authentication. A body is
 * never changed: what a program uploads may be published.
 */
export function withSecrets(headers: Headers, secrets: readonly BoundSecret[]): Headers {
  const sent = new Headers();
  for (const [name, value] of headers) sent.append(name, filled(value, secrets));
  return sent;
}

/** The path and query with the secrets in place of their placeholders. */
export function pathWithSecrets(path: string, secrets: readonly BoundSecret[]): string {
  return put(path, secrets, encodeURIComponent);
}

function filled(value: string, secrets: readonly BoundSecret[]): string {
  const [, scheme, encoded] = /^(basic\s+)([\w+/=-]+)$/i.exec(value) ?? [];
  if (scheme === undefined || encoded === undefined) return put(value, secrets, String);
  const plain = Buffer.from(encoded, "base64").toString();
  const real = put(plain, secrets, String);
  return real === plain ? value : scheme + Buffer.from(real).toString("base64");
}

function put(text: string, secrets: readonly BoundSecret[], write: (value: string) => string): string {
  // A name may begin with another one.
  const longestFirst = secrets.toSorted((a, b) => b.name.length - a.name.length);
  return longestFirst.reduce(
    (now, secret) => now.replaceAll(placeholderOf(secret), () => write(secret.value)),
    text,
  );
}
