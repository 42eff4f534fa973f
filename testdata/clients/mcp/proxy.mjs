// The conformance suite cannot send a key, so this stands in front of the gateway and adds one. It prints its URL and
// runs until its standard input ends.
import http from "node:http";

const target = new URL(process.env.INTERLOCK_MCP_URL);
const server = http.createServer((req, res) => {
  const headers = { ...req.headers, authorization: `Bearer ${process.env.INTERLOCK_KEY_AGENT}` };
  const to = http.request({ host: target.hostname, port: target.port, path: req.url, method: req.method, headers }, (from) => {
    res.writeHead(from.statusCode, from.rawHeaders);
    from.pipe(res);
  });
  to.on("error", () => res.destroy());
  res.on("close", () => to.destroy());
  req.pipe(to);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}${target.pathname}`));
process.stdin.resume().on("end", () => process.exit(0));
