import { describe, expect, test } from "bun:test";
import { searchTool, searchTools } from "../../../src/kernel/devices/tool-search.ts";

/** What 40 servers work with: ten kinds of things each. */
const SERVERS: Record<string, string> = {
  github: "issue pull_request repository branch commit release workflow label gist discussion",
  gitlab: "merge_request pipeline runner snippet milestone epic project group wiki variable",
  jira: "ticket sprint board backlog worklog component version filter transition comment",
  linear: "cycle roadmap initiative triage estimate team view template favorite attachment",
  slack: "channel message thread reaction reminder emoji usergroup canvas bookmark huddle",
  gmail: "email draft inbox_label signature vacation_reply alias forward spam_filter contact mailbox",
  calendar: "event invitation availability room holiday attendee recurrence timezone agenda alert",
  drive: "file folder permission revision shortcut trash share_link upload quota starred",
  sheets: "spreadsheet cell row column chart pivot_table formula named_range worksheet protection",
  docs: "document paragraph heading footnote suggestion outline table_of_contents image style bullet",
  notion: "page database block property relation rollup workspace mention synced_block toggle",
  postgres: "table query index schema view_definition constraint sequence trigger role extension",
  mysql: "procedure partition binlog replica engine collation charset grant lock slow_query",
  mongo: "collection aggregate shard cursor capped_collection change_stream oplog validator bucket ttl",
  redis: "key hash list set stream pubsub script expiry cluster_slot snapshot",
  s3: "object bucket_policy multipart lifecycle_rule presigned_url versioning acl inventory replication cors",
  ec2: "instance volume security_group ami subnet elastic_ip key_pair autoscaling load_balancer spot_request",
  kubernetes: "pod deployment service namespace configmap secret node ingress job statefulset",
  docker:
    "container image_layer network compose_stack registry healthcheck build_cache log_driver swarm mount",
  terraform: "plan state module provider resource output backend workspace_variable drift import_block",
  sentry:
    "error_event stacktrace release_health performance_span alert_rule project_key breadcrumb replay dsn inbound_filter",
  datadog: "metric monitor dashboard trace log_pipeline synthetic_test slo incident host_tag notebook",
  stripe: "payment customer invoice subscription refund dispute coupon payout price_tier tax_rate",
  shopify: "product order cart discount_code variant fulfillment storefront theme collection_page gift_card",
  hubspot: "deal lead company campaign form landing_page pipeline_stage meeting_link sequence_step quote",
  salesforce: "opportunity account case report flow apex_class territory lead_source price_book approval",
  zendesk:
    "support_ticket macro satisfaction_rating help_article sla_policy agent_group trigger_rule brand view_filter escalation",
  twilio:
    "sms phone_number call_recording voicemail conference whatsapp_message verification studio_flow sip_trunk fax",
  spotify: "song playlist album artist podcast playback_queue lyrics audiobook recommendation device_speaker",
  maps: "route place geocode traffic elevation street_view distance_matrix parking transit_stop bicycle_lane",
  weather: "forecast temperature wind rain_radar pollen uv_index sunrise storm_warning humidity tide",
  figma:
    "frame component_set prototype color_style vector design_token sticky_note plugin_widget layer auto_layout",
  browser: "tab screenshot click form_field cookie console_log download viewport network_request dialog",
  filesystem: "directory symlink watcher archive checksum mime_type disk_usage backup lockfile tempfile",
  sqlite: "pragma vacuum attached_database virtual_table blob savepoint journal_mode fts_table rowid cte",
  arxiv: "paper abstract citation author preprint bibliography subject_class figure peer_review doi",
  news: "headline article press_release editorial breaking_story newsletter source_bias archive_page column obituary",
  finance:
    "stock_quote portfolio dividend exchange_rate option_chain earnings_call bond etf balance_sheet crypto_price",
  travel: "flight hotel train_ticket car_rental visa boarding_pass itinerary seat_map luggage lounge",
  health:
    "appointment prescription lab_result vaccination allergy heart_rate sleep_log workout calorie symptom",
};
const VERBS: Record<string, (thing: string, server: string) => string> = {
  create: (thing, server) => `Create a new ${thing} in ${server}.`,
  list: (thing, server) => `List every ${thing} of ${server}, newest first.`,
  get: (thing, server) => `Get the details of one ${thing} from ${server} by its id.`,
  update: (thing, server) => `Change fields of an existing ${thing} in ${server}.`,
  delete: (thing, server) => `Delete a ${thing} from ${server} for good.`,
};

const TOOLS = Object.entries(SERVERS).flatMap(([server, things]) =>
  things.split(" ").flatMap((thing) =>
    Object.entries(VERBS).map(([verb, describe]) => ({
      tool: {
        name: `mcp__${server}__${verb}_${thing}`,
        description: describe(thing.replaceAll("_", " "), server),
      },
    })),
  ),
);

describe("2,000 tools of 40 servers", () => {
  test("cost the prompt less than 2 kB: each server is one item", () => {
    expect(TOOLS).toHaveLength(2_000);
    const { description } = searchTool(TOOLS.map(({ tool }) => tool.name));
    expect(Buffer.byteLength(description)).toBeLessThan(2_000);
    for (const server of Object.keys(SERVERS)) expect(description).toContain(`mcp__${server}__* (50)`);
  });

  const WANTED: [words: string, tool: string][] = [
    ["create a github issue", "mcp__github__create_issue"],
    ["open a new pull request on github", "mcp__github__create_pull_request"],
    ["list all the merge requests", "mcp__gitlab__list_merge_request"],
    ["delete a slack message", "mcp__slack__delete_message"],
    ["get the weather forecast", "mcp__weather__get_forecast"],
    ["create a calendar event", "mcp__calendar__create_event"],
    ["list my emails", "mcp__gmail__list_email"],
    ["create a draft for an email in gmail", "mcp__gmail__create_draft"],
    ["refund a customer's payment: create a refund", "mcp__stripe__create_refund"],
    ["list kubernetes pods", "mcp__kubernetes__list_pod"],
    ["delete the deployment from the kubernetes cluster", "mcp__kubernetes__delete_deployment"],
    ["get a stock quote", "mcp__finance__get_stock_quote"],
    ["update a row in the spreadsheet of sheets", "mcp__sheets__update_row"],
    ["take a screenshot in the browser: create one", "mcp__browser__create_screenshot"],
    ["list papers of arxiv", "mcp__arxiv__list_paper"],
    ["get details of a flight", "mcp__travel__get_flight"],
    ["create playlist", "mcp__spotify__create_playlist"],
    ["change an existing invoice", "mcp__stripe__update_invoice"],
    ["list open incidents in datadog", "mcp__datadog__list_incident"],
    ["delete an s3 object", "mcp__s3__delete_object"],
  ];
  test("words find the right one first in at least 18 of 20", () => {
    const missed = WANTED.flatMap(([words, tool]) => {
      const first = searchTools(words, TOOLS)[0]?.tool.name;
      return first === tool ? [] : [`${words}: ${first}`];
    });
    expect(missed.length, missed.join("\n")).toBeLessThanOrEqual(2);
  });
});
