import type { ConfigSources } from "../../src/config/config-sources.ts";
import { type ProviderRequest, resolveProvider } from "../../src/config/providers/provider-choice.ts";
import { driverNames } from "../../src/config/providers/provider-needs.ts";
import { loadProviders } from "../../src/config/providers/providers.ts";
import { type DriverFacts, SyscallError } from "../../src/plugin/index.ts";
import type { DeviceEntry } from "../../src/vfs/namespace.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { STOCK_FACTS } from "../support/stock-drivers.ts";
import type { Sandbox } from "./sandbox.ts";

export const USER = "home/.config/rnix/providers.yaml";
export const PROJECT = "home/work/.rnix/providers.yaml";

type Detect = (env: Record<string, string>) => Promise<{ model: string } | null>;

/** A driver with these facts; one with a stock driver's name has that driver's. */
export function device(
  driver: string,
  detect: Detect,
  facts: DriverFacts = STOCK_FACTS.get(driver) ?? {},
): DeviceEntry {
  const factory = () => {
    throw new SyscallError("INTERNAL", "a provider that is chosen is not opened");
  };
  return {
    path: `/dev/llm/${driver}`,
    device: { factory, provider: { ...facts, detect } },
    plugin: driver,
    layer: "stock",
    needs: [],
  };
}

/** Finds itself by a variable, as the stock drivers do. */
export function byKey(driver: string, variable: string, model: string): DeviceEntry {
  return device(driver, async (env) => (env[variable] ? { model } : null));
}

export const STOCK = [
  device("replay", async () => null),
  byKey("openai", "OPENAI_API_KEY", "gpt-default"),
  byKey("google", "GEMINI_API_KEY", "gemini-default"),
  device("openai-compatible", async () => null),
  device("claude", async () => null),
  device("cursor", async () => null),
  byKey("anthropic", "ANTHROPIC_API_KEY", "claude-default"),
];

export async function request(
  sources: ConfigSources,
  more: Partial<ProviderRequest> = {},
): Promise<ProviderRequest> {
  const devices = more.devices ?? { entries: () => STOCK };
  return {
    providers: await loadProviders(sources, driverNames({ devices })),
    devices,
    env: {},
    // No local server: the machine of the tests is not searched.
    userEnv: { OLLAMA_HOST: "127.0.0.1:1" },
    keys: {
      of: () => {
        throw new Error("no command is run for a key");
      },
    },
    clock: new FakeClock(),
    warn: (text) => {
      throw new Error(`unexpected warning: ${text}`);
    },
    ...more,
  };
}

export const KEYS = {
  OPENAI_API_KEY: "sk-openai",
  ANTHROPIC_API_KEY: "sk-anthropic",
  GEMINI_API_KEY: "ai-google",
};

export const choose = async (box: Sandbox, provider: string, env: Record<string, string>, more = {}) =>
  resolveProvider(await request(box.sources(), { flags: { provider, model: "m" }, env, ...more }));
