/** Finds out whether runs are counted and reported, and loads what does it. */

import { userEnv } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import type { Settings } from "../../config/settings/settings.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { Reporting } from "./start-reporting.ts";

/**
 * The user's own variables and settings alone count: a run must not choose where it is reported. undefined: nothing is
 * counted, because nothing reads it.
 */
export async function openReporting(
  options: BootOptions,
  machine: Machine,
  port: KernelPort,
): Promise<Reporting | undefined> {
  const { user, env, settings, logger, daemon = false } = options;
  const warn = (text: string): void => logger.warn("telemetry", text);
  const variables = { ...ofSetting(settings), ...otelIn(fileEnv(user.configDir, warn)), ...otelIn(env) };
  if (!daemon && Object.keys(variables).length === 0) return undefined;
  const { startReporting } = await import("./start-reporting.ts");
  return startReporting(variables, options, machine, port);
}

function ofSetting({ own: { telemetry } }: Settings): Env {
  return otelIn({
    OTEL_EXPORTER_OTLP_ENDPOINT: telemetry?.endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: telemetry?.protocol,
    OTEL_SERVICE_NAME: telemetry?.service_name,
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: telemetry?.content === true ? "true" : undefined,
  });
}

/** The user's file may hold a key for the collector. If it can't be read, each run says so, too. */
function fileEnv(configDir: string, warn: (text: string) => void): Env {
  try {
    return userEnv(configDir);
  } catch (thrown) {
    warn(messageOf(thrown));
    return {};
  }
}

/** An empty variable counts as none, as the specification says. */
function otelIn(env: Env): Env {
  return Object.fromEntries(Object.entries(env).filter(([name, value]) => name.startsWith("OTEL_") && value));
}
