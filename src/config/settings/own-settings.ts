/** Settings that are mappings and the user's alone: no project's file may have them. */

import { z } from "zod";
import { choice, flag, list, mapping, number, strict, text, variable } from "../files/values.ts";

/** Secrets that the proxy of a run sends to their hosts, by the name of their variable. */
const SecretSettings = z.lazy(() =>
  mapping(
    "variables",
    strict({
      /** `env`: the variable itself; else a file. */
      from: z
        .string()
        .regex(/^(?:env|[~/].*)$/, 'expected "env", or the path of a file that begins with / or ~/'),
      hosts: list("hosts", text("a host such as api.example.com")).min(1, "expected at least one host"),
    }),
    variable("expected the name of a variable"),
  ),
);

/** Where telemetry is sent: the OTEL_* variables of the same meaning win. */
const TelemetrySettings = z.lazy(() =>
  strict({
    endpoint: text("an address")
      .regex(/^https?:/, "expected an http or https address")
      .optional(),
    protocol: choice(["http/protobuf", "http/json"]).optional(),
    service_name: text("a name").optional(),
    content: flag().optional(),
  }),
);

/** Where the dashboard listens beside 127.0.0.1: then it needs a password. */
const DashboardSettings = z.lazy(() =>
  strict({
    listen: text("an address of this machine, such as 0.0.0.0").optional(),
    port: number({ measure: "count", min: 1, max: 65_535 }).optional(),
    hosts: list("names", text("the name of a host")).optional(),
  }),
);

/** What they are, why a project can't have them, and their schemas. */
export const OWN_SETTINGS = {
  secrets: {
    about: "secrets that programs use by a placeholder, and only their hosts get",
    why: "secrets are yours",
    schema: SecretSettings,
  },
  telemetry: {
    about: "where spans and metrics of runs are sent",
    why: "you decide where runs are reported",
    schema: TelemetrySettings,
  },
  dashboard: {
    about: "where the dashboard listens, and the names of hosts that lead to it",
    why: "one daemon serves all projects",
    schema: DashboardSettings,
  },
} as const;

export type OwnKey = keyof typeof OWN_SETTINGS;
export const OWN_KEYS = ["secrets", "telemetry", "dashboard"] as const satisfies readonly OwnKey[];

/** Their values in the user's file. */
export type OwnSettings = { [K in OwnKey]?: z.infer<(typeof OWN_SETTINGS)[K]["schema"]> };
