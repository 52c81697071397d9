/** Reads the error documents of providers. */

import { z } from "zod";

/** A provider's report of an error, in any of the protocols. */
export interface ErrorDocument {
  message: string;
  code?: string;
  type?: string;
  /** Google's name of the error, more precise than its status. */
  reason?: string;
  /** How long to wait before a retry. */
  retryAfterMs?: number;
}

/** Reads `{error: {message, code?, type?}}`, the form of all protocols; undefined for any other body. */
export function errorDocument(body: string | undefined): ErrorDocument | undefined {
  if (body === undefined) return undefined;
  try {
    return errorObject(JSON.parse(body));
  } catch {
    return undefined;
  }
}

/** The same from a value that a provider package has parsed. */
export function errorObject(value: unknown): ErrorDocument | undefined {
  if (value instanceof Error) return undefined;
  const wrapped = Wrapped.safeParse(value);
  const found = wrapped.success ? within(wrapped.data) : ErrorBody.safeParse(value).data;
  if (found === undefined) return undefined;
  if (typeof found === "string") return { message: found };
  const { message, code, type, status, details } = found;
  return { message, code: code?.toString(), type: type ?? status ?? undefined, ...ofDetails(details ?? []) };
}

const ErrorBody = z.lazy(() =>
  z.object({
    message: z.string(),
    code: z.union([z.string(), z.number()]).nullish(),
    type: z.string().nullish(),
    // Google's (google.rpc.Status).
    status: z.string().nullish(),
    details: z.array(z.unknown()).nullish().catch(null),
  }),
);
type ErrorBody = z.infer<typeof ErrorBody>;

const ErrorAnswer = z.lazy(() => z.object({ error: z.union([ErrorBody, z.string()]) }));
const Wrapped = z.lazy(() =>
  z.union([ErrorAnswer, z.object({ response: z.object({ error: ErrorBody }) }), z.tuple([ErrorAnswer])]),
);

function within(found: z.infer<typeof Wrapped>): ErrorBody | string {
  if ("response" in found) return found.response.error;
  // Without server-sent events Google answers with a list.
  return Array.isArray(found) ? found[0].error : found.error;
}

/** google.rpc.ErrorInfo and google.rpc.RetryInfo: a list of details has at most one of each. */
const Detail = z.lazy(() =>
  z.object({
    reason: z.string().optional(),
    retryDelay: z
      .string()
      .regex(/^\d+(\.\d+)?s$/)
      .optional(),
  }),
);

function ofDetails(details: unknown[]): Pick<ErrorDocument, "reason" | "retryAfterMs"> {
  const found = details.flatMap((detail) => Detail.safeParse(detail).data ?? []);
  const reason = found.find((detail) => detail.reason !== undefined)?.reason;
  const delay = found.find((detail) => detail.retryDelay !== undefined)?.retryDelay;
  return {
    ...(reason === undefined ? {} : { reason }),
    ...(delay === undefined ? {} : { retryAfterMs: Math.round(Number(delay.slice(0, -1)) * 1000) }),
  };
}
