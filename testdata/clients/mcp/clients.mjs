// Takes MCP clients of other people through what an agent meets: it connects, lists, asks, is refused, held, cancels, has a
// wrong key, and is limited. Each step prints what the client's user sees; a step that goes otherwise than it must fails.
// Run by the script run, in the demo's environment.
import { execFileSync, spawn } from "node:child_process";
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

const write = "update support.tickets set note = 'solved' where id = 7";

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
  async held({ client, lib }) {
    const { shown, status } = await outcome(() => lib.call(client, query(write)));
    return must(status === "queued" && /^result: .*not executed/.test(shown), shown);
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
let failed = 0;

async function step(name, what, run) {
  try {
    console.log(`ok   ${name}: ${what}: ${await run()}`);
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

// The inspector's command line, in both eras. Its user cancels it by ending it.
const inspectorDir = path.dirname(require.resolve("@modelcontextprotocol/inspector/package.json"));
const inspectorMain = path.join(inspectorDir, JSON.parse(readFileSync(path.join(inspectorDir, "package.json"))).bin["mcp-inspector"]);
const inspectorArgs = (era, ...rest) => [inspectorMain, "--cli", "--server-url", url, "--transport", "http", "--protocol-era", era,
  "--header", `Authorization: Bearer ${process.env.INTERLOCK_KEY_AGENT}`, "--format", "json", "-q", ...rest];
const asking = (sql) => ["--method", "tools/call", "--tool-name", "interlock_query", "--tool-arg", "source_id=shop", "--tool-arg", `sql=${sql}`];
const inspector = (era, ...rest) => execFileSync(process.execPath, inspectorArgs(era, ...rest), { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

// exits runs a call that must fail with a text.
function exits(era, sql, text) {
  let shown;
  try {
    shown = inspector(era, ...asking(sql));
  } catch (error) {
    const all = `${error.stdout ?? ""}${error.stderr ?? ""}`;
    return must(text.test(all), `exit ${error.status}: ${all.match(text)?.[0] ?? all.trim().split("\n")[0].slice(0, 120)}`);
  }
  return must(false, shown);
}

const eras = ["legacy", "modern"];
for (const era of eras) {
  const name = `inspector 2.12.0 ${era}`;
  await step(name, "list", () => must(inspector(era, "--method", "tools/list").includes("interlock_discover"), "lists interlock_discover"));
  await step(name, "query", () => must(inspector(era, ...asking("select 9007199254740993 as big")).includes("9007199254740993"), "the row"));
  await step(name, "held", () => {
    const shown = inspector(era, ...asking(write));
    return must(/queued/.test(shown) && /not executed/.test(shown), "exit 0 with the text of the result");
  });
  await step(name, "refused", () => exits(era, "select name from crm.customers", /permission denied for table[^\n]*?customers/));
  await step(name, "cancel", async () => {
    const child = spawn(process.execPath, inspectorArgs(era, ...asking(slow)), { stdio: "ignore" });
    await until("the statement to run", () => running() === 1);
    child.kill("SIGINT");
    await until("the statement to end", () => running() === 0);
    return "the statement ends with the program";
  });
}

limit();
for (const c of open) await step(c.name, "limited", () => limited(c));
for (const era of eras) await step(`inspector 2.12.0 ${era}`, "limited", () => exits(era, "select 1", /rate limit of identity[^\n]*?reached/));
for (const c of open) await c.client.close();
process.exit(failed > 0 ? 1 : 0);
