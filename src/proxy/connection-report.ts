/** What is known of one connection of a run. */

/** A connection that ended, or was refused. */
export interface ConnectionReport {
  host: string;
  port: number;
  /** The address that was checked and dialled. */
  address?: string;
  /** Bytes; absent: a driver made the connection. */
  sent?: number;
  received?: number;
  /** The secrets whose placeholders were filled in: TLS was opened. */
  secrets?: string[];
  /** The entry of the list that allowed it. */
  rule?: string;
  /** Why it was refused, and the entry that would allow it. */
  refused?: { why: string; entry?: string };
  /** Why an allowed connection failed. */
  failed?: string;
}

/** What a refused program, its model and its user read. */
export function refusalText({ host, port, refused }: ConnectionReport): string {
  const { why = "", entry } = refused ?? {};
  const remedy = entry === undefined ? "" : ` Only the user can allow it: --network ${entry}`;
  return `The network of this run does not reach ${host}:${port}: ${why}.${remedy}`;
}
