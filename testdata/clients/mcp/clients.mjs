// Takes MCP clients of other people through what an agent meets: it connects, lists, asks, is refused, cancels, has a
// wrong key, and is limited. Each step prints what the client's user sees; a step that goes otherwise than it must fails.
// Run by the script run, in the demo's environment.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = path.join(process.env.INTERLOCK_CLIENTS, "node_modules");
const require = createRequire(path.join(modules, "x.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const url = process.env.INTERLOCK_MCP_URL;
const query = (sql) => ({ name: "interlock_query", arguments: { source_id: "shop", sql } });
const slow = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 2000000000) select count(*) from t";

// What a client library needs to call: connect(key) gives a client.
async function sdk(name) {
  const { Client } = await load(`${name}/client/index.js`);
  const { StreamableHTTPClientTransport } = await load(`${name}/client/streamableHttp.js`);
  return {
    connect: (key) => connected(new Client({ name, version: "1" }), new StreamableHTTPClientTransport(new URL(url), bearer(key))),
    call: (client, params, options) => client.callTool(params, undefined, options),
  };
}

async function modern() {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  return {
    connect: (key) =>
      connected(new Client({ name: "client", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } }), new StreamableHTTPClientTransport(new URL(url), bearer(key))),
    call: (client, params, options) => client.callTool(params, options),
  };
}

// remote reaches the gateway as a desktop host does that speaks to programs alone.
async function remote() {
  const { Client } = await load("sdk-1.32/client/index.js");
  const { StdioClientTransport } = await load("sdk-1.32/client/stdio.js");
  const args = (key) => [path.join(modules, "mcp-remote/dist/proxy.js"), url, "--allow-http", "--transport", "http-only", "--header", `Authorization: Bearer ${key}`];
  return {
    connect: (key) => connected(new Client({ name: "remote", version: "1" }), new StdioClientTransport({ command: process.execPath, args: args(key), stderr: "ignore", env: { ...process.env } })),
    call: (client, params, options) => client.callTool(params, undefined, options),
  };
}

const bearer = (key) => ({ requestInit: { headers: { Authorization: `Bearer ${key}` } } });

async function connected(client, transport) {
  await client.connect(transport);
  return client;
}

const first = (result) => result.content[0].text.split("\n")[0];
const running = () => Number(execFileSync("psql", [process.env.INTERLOCK_UPSTREAM_DSN, "-tAc", "select count(*) from pg_stat_activity where state = 'active' and query like 'with recursive t%'"]));

async function until(what, done) {
  for (const end = Date.now() + 30000; !(await done()); await new Promise((go) => setTimeout(go, 50))) {
    if (Date.now() > end) throw new Error(`waited 30 s for ${what}`);
  }
}

function must(holds, shown) {
  if (!holds) throw new Error(`unexpected: ${shown}`);
  return shown;
}

// outcome is what the user of a client sees of a call: the first line of a result, or the error.
async function outcome(call) {
  try {
    const result = await call();
    return { shown: (result.isError ? "result isError: " : "result: ") + first(result), status: result.structuredContent?.status };
  } catch (error) {
    return { shown: `${error.constructor.name}: ${error.message.split("\n")[0]}`, status: "" };
  }
}

const steps = {
  async connect({ client }) {
    return must(client.getServerVersion().name === "interlock", `${client.getServerVersion().name} ${client.getInstructions().slice(0, 40)}...`);
  },
  async list({ client }) {
    const { tools } = await client.listTools();
    return must(tools.length >= 6, `${tools.length} tools`);
  },
  async query({ client, lib }) {
    const { shown } = await outcome(() => lib.call(client, query("select count(*) as n, 9007199254740993 as big from sales.orders")));
    return must(/^result: \[\{"n":\d+,"big":9007199254740993\}\]$/.test(shown), shown);
  },
  async refused({ client, lib }) {
    const { shown } = await outcome(() => lib.call(client, query("select name from crm.customers")));
    return must(/permission denied for table \\?"crm.customers/.test(shown), shown);
  },
  async cancel({ client, lib }) {
    const stop = new AbortController();
    let heard = 0;
    const call = outcome(() => lib.call(client, query(slow), { signal: stop.signal, onprogress: () => heard++, timeout: 60000 }));
    await until("progress", () => heard > 0);
    stop.abort();
    const { shown } = await call;
    await until("the statement to end", () => running() === 0);
    return `${shown}; heard before that the call runs`;
  },
  async key({ lib }) {
    const { shown } = await outcome(async () => lib.call(await lib.connect("wrong"), query("select 1")));
    return must(/not valid|unauthenticated|401|Unauthorized|key/i.test(shown), shown);
  },
};

// limited puts a rate limit into the governance document and waits until it is in force.
function limit() {
  const config = readFileSync(process.env.INTERLOCK_CONFIG, "utf8");
  const file = path.resolve(path.dirname(process.env.INTERLOCK_CONFIG), config.match(/^governance: *(\S+)/m)[1]);
  writeFileSync(file, readFileSync(file, "utf8").replace(/^ {2}agent:\n/m, "  agent:\n    limits: {rate: 1/h}\n"));
}

async function limited({ client, lib }) {
  let last;
  await until("the limit", async () => /rate limit/.test((last = await outcome(() => lib.call(client, query("select 1")))).shown) || /429|Too Many/.test(last.shown));
  return last.shown;
}

const clients = { "sdk 1.11.5": await sdk("sdk-1.11"), "sdk 1.20.2": await sdk("sdk-1.20"), "sdk 1.32.2": await sdk("sdk-1.32"), "client 2.4.0": await modern(), "mcp-remote 0.15.1": await remote() };
let passed = 0, failed = 0;

async function step(name, what, run) {
  try {
    console.log(`ok   ${name}: ${what}: ${await run()}`);
    passed++;
  } catch (error) {
    console.log(`FAIL ${name}: ${what}: ${error.message}`);
    failed++;
  }
}

const open = [];
for (const [name, lib] of Object.entries(clients)) {
  const client = await lib.connect(process.env.INTERLOCK_KEY_AGENT);
  open.push({ name, lib, client });
  for (const [what, run] of Object.entries(steps)) await step(name, what, () => run({ client, lib }));
}

// The inspector's command line, in both eras.
const inspector = (era, ...rest) => execFileSync(process.execPath, [require.resolve("@modelcontextprotocol/inspector/package.json").replace("package.json", JSON.parse(readFileSync(require.resolve("@modelcontextprotocol/inspector/package.json"))).bin["mcp-inspector"]),
  "--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "--header", `Authorization: Bearer ${process.env.INTERLOCK_KEY_AGENT}`, "--format", "json", "-q", ...rest], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
for (const era of ["legacy", "modern"]) {
  const call = (sql) => inspector(era, "--method", "tools/call", "--tool-name", "interlock_query", "--tool-arg", "source_id=shop", "--tool-arg", `sql=${sql}`);
  await step(`inspector 2.12.0 ${era}`, "list", () => must(inspector(era, "--method", "tools/list").includes("interlock_discover"), "lists interlock_discover"));
  await step(`inspector 2.12.0 ${era}`, "query", () => must(call("select 9007199254740993 as big").includes("9007199254740993"), "the row"));
  await step(`inspector 2.12.0 ${era}`, "refused", () => {
    try {
      return must(false, call("select name from crm.customers"));
    } catch (error) {
      const text = `${error.stdout ?? ""}${error.stderr ?? ""}`;
      return must(error.status > 0, `exit ${error.status}: ${text.match(/permission denied for table[^\n]*?customers/)?.[0] ?? text.trim().split("\n")[0].slice(0, 120)}`);
    }
  });
}

limit();
for (const c of open) await step(c.name, "limited", () => limited(c));
for (const c of open) await c.client.close();
console.log(`clients: ${passed} steps passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
