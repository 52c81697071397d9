import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { InvalidGrantError, InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import type {
  AuthorizationParams,
  OAuthServerProvider,
} from "@modelcontextprotocol/sdk/server/auth/provider.js";
import { mcpAuthRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { OAuthClientInformationFull, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import { testServer } from "./tools.ts";

/** The test's MCP server behind OAuth: the SDK's authorization server, with rotating refresh tokens, on one port. */
export class OAuthMcpServer implements AsyncDisposable {
  readonly clients = new Map<string, OAuthClientInformationFull>();
  readonly codes = new Map<string, AuthorizationParams>();
  /** Access tokens that count. */
  readonly tokens = new Set<string>();
  /** Refresh tokens that count: each one once. */
  readonly refreshTokens = new Set<string>();
  /** Seconds. */
  lifetime = 3600;
  /** The person refuses. */
  refuses = false;
  refreshes = 0;
  readonly #server = createServer();

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const app = createMcpExpressApp();
    const issuerUrl = new URL(this.origin);
    const resourceServerUrl = new URL(this.url);
    const rateLimit = false;
    app.use(
      mcpAuthRouter({
        provider: this.#provider,
        issuerUrl,
        resourceServerUrl,
        scopesSupported: ["notes"],
        clientRegistrationOptions: { rateLimit },
        authorizationOptions: { rateLimit },
        tokenOptions: { rateLimit },
      }),
    );
    const resourceMetadataUrl = `${this.origin}/.well-known/oauth-protected-resource/mcp`;
    app.use("/mcp", requireBearerAuth({ verifier: this.#provider, resourceMetadataUrl }));
    app.all("/mcp", async (request: IncomingMessage & { body: unknown }, response: ServerResponse) => {
      const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
      await testServer().connect(transport);
      await transport.handleRequest(request, response, request.body);
    });
    this.#server.on("request", app);
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #issue(): OAuthTokens {
    const [access_token, refresh_token] = [crypto.randomUUID(), crypto.randomUUID()];
    this.tokens.add(access_token);
    this.refreshTokens.add(refresh_token);
    return { access_token, refresh_token, token_type: "bearer", expires_in: this.lifetime };
  }

  readonly #provider: OAuthServerProvider = {
    clientsStore: {
      getClient: (id) => this.clients.get(id),
      registerClient: (client) => {
        const known = { ...client, client_id: crypto.randomUUID() };
        this.clients.set(known.client_id, known);
        return known;
      },
    },
    authorize: async (
      _client: unknown,
      params: AuthorizationParams,
      response: { redirect(to: string): void },
    ) => {
      const back = new URL(params.redirectUri);
      if (params.state !== undefined) back.searchParams.set("state", params.state);
      const code = crypto.randomUUID();
      if (this.refuses) back.searchParams.set("error", "access_denied");
      else back.searchParams.set("code", code);
      this.codes.set(code, params);
      response.redirect(back.href);
    },
    challengeForAuthorizationCode: async (_client, code) => this.codes.get(code)?.codeChallenge ?? "",
    exchangeAuthorizationCode: async (_client, code) => {
      if (!this.codes.delete(code)) throw new InvalidGrantError("no such code");
      return this.#issue();
    },
    exchangeRefreshToken: async (_client, token) => {
      if (!this.refreshTokens.delete(token)) throw new InvalidGrantError("no such refresh token");
      this.refreshes++;
      return this.#issue();
    },
    verifyAccessToken: async (token) => {
      if (!this.tokens.has(token)) throw new InvalidTokenError("no such token");
      return { token, clientId: "", scopes: [], expiresAt: Date.now() / 1000 + 60 };
    },
  };
}
