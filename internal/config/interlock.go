package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Units for bounds.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	day = 24 * time.Hour
)

// shapeOf describes interlock.yaml and binds it to a Config.
func shapeOf(c *Config) shape {
	return &object{
		about: "How a node of the gateway runs. Every key has a default; paths are relative to this file.",
		fields: []field{
			{"data_dir", words(&c.DataDir, "interlock-data", "Directory of the control store and the audit log.")},
			{"governance", words(&c.Governance, "governance.yaml", "Path of the governance document.")},
			{"listeners", &object{
				about: "Addresses that are listened on. One that is not on the loopback interface needs TLS.",
				fields: []field{
					{"pgwire", listenerShape(&c.Listeners.PGWire, "127.0.0.1:6432", "PostgreSQL protocol.")},
					{"mcp", listenerShape(&c.Listeners.MCP, "127.0.0.1:8642", "Model Context Protocol over HTTP.")},
					{"admin", listenerShape(&c.Listeners.Admin, "127.0.0.1:8643", "Operators' HTTP API: health, readiness, status.")},
				},
			}},
			{"store", &object{
				about: "Control store: ruleset versions, API keys, catalog snapshots, statements that wait for people.",
				fields: []field{
					{"driver", choice(&c.Store.Driver, "sqlite", "sqlite keeps it in a file.", "sqlite")},
					{"dir", words(&c.Store.Dir, "", "Directory of the file and of the server's secret, which gateways on one machine can share. Default: the data directory.")},
				},
			}},
			{"audit", auditShape(&c.Audit)},
			{"limits", limitsShape(&c.Limits)},
			{"approvals", approvalsShape(&c.Approvals)},
			{"breaker", breakerShape(&c.Breaker)},
			{"redis", redisShape(&c.Redis)},
			{"mcp", mcpShape(&c.MCP)},
			{"log", &object{
				about: "Operational log, on standard error.",
				fields: []field{
					{"level", choice(&c.Log.Level, "info", "Least severe level that is logged.", "debug", "info", "warn", "error")},
					{"format", choice(&c.Log.Format, "json", "One JSON object a line, or text for people.", "json", "console")},
				},
			}},
		},
	}
}

func listenerShape(l *Listener, preset, about string) shape {
	return &object{
		about: about,
		fields: []field{
			{"address", text(&l.Address, preset, "host:port to listen on; port 0 picks a free one.", `^.*:[0-9]{1,5}$`, checkAddress)},
			{"disabled", boolean(&l.Disabled, "Do not listen.")},
			{"tls", tlsShape(l)},
		},
		done: func(r *reader, node func(string) *yaml.Node) {
			if !l.Disabled && l.Address != "" && l.TLS == nil && !loopback(l.Address) {
				r.fail(node("address"), "%s is not on the loopback interface, so the listener needs tls with cert and key", l.Address)
			}
		},
	}
}

func tlsShape(l *Listener) shape {
	var t TLS
	return &object{
		about:    "TLS of the listener, from PEM files.",
		required: []string{"cert", "key"},
		fields: []field{
			{"cert", words(&t.Cert, "", "Certificate with its chain.")},
			{"key", words(&t.Key, "", "Private key.")},
			{"client_ca", words(&t.ClientCA, "", "Certificates of authorities: clients must show a certificate that one of them signed.")},
		},
		done: func(*reader, func(string) *yaml.Node) { l.TLS = &t },
	}
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address; write host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q is no port; it is a number from 0 to 65535", port)
	}
	return nil
}

// loopback reports if an address can only be reached from this machine. A name other than localhost may mean anything.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func auditShape(a *Audit) shape {
	return &object{
		about: "Audit log, in the data directory.",
		fields: []field{
			{"node", text(&a.Node, "", "Name of this node in the log. Default: the name of the host.", `^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`, checkNode)},
			{"sync", choice(&a.Sync, "group", "group: a result may be released before its record is on the disk, a write never; always: no result is released before; "+
				"relaxed: nothing waits for the disk, not even a write.", "group", "always", "relaxed")},
			{"sync_interval", duration(&a.SyncInterval, "Longest time until a record is on the disk (sync: group).", time.Millisecond, time.Second, 20*time.Millisecond)},
			{"relaxed_window", duration(&a.RelaxedWindow, "Longest time until a record is on the disk (sync: relaxed), and so what a power cut loses.", 100*time.Millisecond, time.Minute, 2*time.Second)},
			{"segment_bytes", size(&a.SegmentBytes, "A segment file of this size is closed and the next one begun.", bounds{64 * kib, 4 * gib, 64 * mib})},
			{"compression", choice(&a.Compression, "zstd", "Form of closed segments.", "zstd", "none")},
			{"compression_backlog", size(&a.CompressionBacklog, "Closed segments of so many bytes wait for a quiet time (fewer than 500 entries a second) before they are compressed.",
				bounds{0, 1024 * gib, gib})},
			{"checkpoint_interval", duration(&a.CheckpointInterval, "Longest time from a record to a signed checkpoint that covers it.", time.Second, 24*time.Hour, time.Minute)},
			{"shared_index", &object{
				about:    "Index in PostgreSQL that nodes share: each writes its part, and interlock audit --shared asks for all of them.",
				required: []string{"dsn"},
				fields: []field{
					{"dsn", text(&a.SharedIndex.DSN, "", "Reference to the connection string, postgres://user:password@host/database?sslmode=verify-full or in the form of libpq: env:NAME or file:PATH. "+
						"A server on another machine needs sslmode=verify-full or verify-ca.", referencePattern, checkReference)},
				},
			}},
			{"sinks", &table{"Places that the log is sent to, by name.", func(key *yaml.Node) shape { return sinkShape(a, key) }}},
		},
	}
}

func checkNode(name string) error {
	if !nodeForm.MatchString(name) {
		return fmt.Errorf("%q is no name of a node; use letters, digits, '.', '_' and '-'", name)
	}
	return nil
}

var nodeForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func sinkShape(a *Audit, key *yaml.Node) shape {
	s := AuditSink{Name: value(key)}
	return &object{
		about:    "A place that the log is sent to, entry by entry in the order of the log. Each has a position of its own.",
		required: []string{"kind"},
		fields: []field{
			{"kind", choice(&s.Kind, "", "file: lines are appended to path; http: batches of lines are posted to url; syslog: RFC 5424 messages.", "file", "http", "syslog")},
			{"path", words(&s.Path, "", "File that is appended to (kind: file).")},
			{"url", words(&s.URL, "", "Endpoint that batches of JSON Lines are posted to (kind: http).")},
			{"token", text(&s.Token, "", "Reference to the bearer token of the endpoint (kind: http): env:NAME or file:PATH.", referencePattern, checkReference)},
			{"address", words(&s.Address, "", "Server (kind: syslog): udp://host:port, tcp://host:port, tls://host:port or unix:///path.")},
			{"ca", words(&s.CA, "", "File with the certificates (PEM) of the authorities that may vouch for an https or tls:// server, instead of the system's.")},
			{"only", choice(&s.Only, "all", "all: every entry; checkpoints: signed checkpoints alone.", "all", "checkpoints")},
		},
		done: func(r *reader, node func(string) *yaml.Node) {
			if !nodeForm.MatchString(s.Name) {
				r.fail(node(""), "%q is no name of a sink; use letters, digits, '.', '_' and '-'", s.Name)
			}
			checkSink(&s, r, node)
			a.Sinks = append(a.Sinks, s)
		},
	}
}

// checkSink checks that a sink has what its kind needs.
func checkSink(s *AuditSink, r *reader, node func(string) *yaml.Node) {
	u, err := url.Parse(s.URL)
	switch {
	case s.Kind == "file" && s.Path == "":
		r.fail(node("kind"), "a sink of kind file needs path")
	case s.Kind == "http" && (err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(joinPort(u.Hostname())))):
		r.fail(node("url"), "a sink of kind http needs an https URL; http is possible for loopback addresses only")
	case s.CA != "" && !strings.HasPrefix(s.URL+s.Address, "https://") && !strings.HasPrefix(s.URL+s.Address, "tls://"):
		r.fail(node("ca"), "ca is for https and tls:// alone: nothing else has a certificate")
	case s.Kind == "syslog":
		if scheme, rest, ok := strings.Cut(s.Address, "://"); !ok || rest == "" || !slices.Contains([]string{"udp", "tcp", "tls", "unix"}, scheme) {
			r.fail(node("address"), "a sink of kind syslog needs an address such as tls://logs.example:6514")
		}
	}
}

func limitsShape(l *Limits) shape {
	return &object{
		about: "What clients may take from this node.",
		fields: []field{
			{"max_connections", integer(&l.MaxConnections, "PostgreSQL protocol sessions.", bounds{1, 1_000_000, 1000})},
			{"max_connections_per_identity", integer(&l.MaxConnectionsPerIdentity, "PostgreSQL protocol sessions of one identity.", bounds{1, 1_000_000, 500})},
			{"max_unauthenticated", integer(&l.MaxUnauthenticated, "Connections that have not proved who they are.", bounds{1, 100_000, 256})},
			{"login_timeout", duration(&l.LoginTimeout, "From accepting a connection to the end of its authentication.", time.Second, 10*time.Minute, 30*time.Second)},
			{"idle_timeout", duration(&l.IdleTimeout, "A session that asks nothing for so long outside a transaction is ended; 0s is never, and the default.", 0, 30*day, 0)},
			{"max_message_bytes", size(&l.MaxMessageBytes, "One message of the PostgreSQL protocol.", bounds{16 * kib, gib - 1, 64 * mib})},
			{"max_statement_bytes", size(&l.MaxStatementBytes, "One SQL text.", bounds{kib, 256 * mib, 10 * mib})},
			{"max_statement_tokens", integer(&l.MaxStatementTokens, "Tokens of one SQL text.", bounds{100, 100_000_000, 1_000_000})},
			{"max_statements", integer(&l.MaxStatements, "Statements in one SQL text.", bounds{1, 1_000_000, 10_000})},
			{"facts_cache_bytes", size(&l.FactsCacheBytes, "Cache of analysed texts.", bounds{64 * kib, 64 * gib, 64 * mib})},
			{"result_cache_bytes", size(&l.ResultCacheBytes, "Cache of results, of all sources that have one. A result that is larger than an eighth of it is not kept.", bounds{64 * kib, 64 * gib, 64 * mib})},
			{"write_lease", duration(&l.WriteLease, "So much longer than its statement timeout counts a write as under way, on a source with a cache, when its node is not heard of any more.", time.Second, time.Hour, 30*time.Second)},
			{"mcp_body_bytes", size(&l.MCPBodyBytes, "Body of one MCP request.", bounds{kib, 256 * mib, 4 * mib})},
			{"mcp_concurrency", integer(&l.MCPConcurrency, "Calls of one identity that run at the same time over MCP.", bounds{1, 100_000, 64})},
			{"upstream_connect_timeout", duration(&l.UpstreamConnectTimeout, "From dialling a source's server to a usable connection.", 100*time.Millisecond, 10*time.Minute, 10*time.Second)},
			{"upstream_wait_timeout", duration(&l.UpstreamWaitTimeout, "Wait for one of a source's connections while all are in use.", 10*time.Millisecond, 10*time.Minute, 10*time.Second)},
			{"upstream_idle_timeout", duration(&l.UpstreamIdleTimeout, "A pooled connection that is not used for so long is closed.", time.Second, day, 5*time.Minute)},
			{"upstream_lifetime", duration(&l.UpstreamLifetime, "A pooled connection is closed after so long.", time.Second, 30*day, time.Hour)},
			{"shutdown_timeout", duration(&l.ShutdownTimeout, "What still runs so long after a request to stop is cancelled.", 0, time.Hour, 30*time.Second)},
			{"peer_idle_timeout", duration(&l.PeerIdleTimeout, "A TCP connection, to a client of the PostgreSQL door or to a server, ends when the other end has vanished and nothing has been sent to it for so long.", 10*time.Second, day, 2*time.Minute)},
			{"peer_stalled_timeout", duration(&l.PeerStalledTimeout, "Such a connection ends when what was sent is not acknowledged for so long, or not taken because the other end does not read.", 10*time.Second, day, 10*time.Minute)},
			{"stranger_failures", integer(&l.StrangerFailures, "Requests and logins a minute from one client address that fail for want of a valid key and are recorded one by one. "+
				"More are turned away without a record of their own; how many they were is recorded.", bounds{1, 1_000_000, 60})},
		},
	}
}

func mcpShape(m *MCP) shape {
	return &object{
		about: "Who may reach the MCP endpoint.",
		fields: []field{
			{"allowed_origins", stringList(&m.AllowedOrigins, "Origins of web pages that may call the endpoint, beside its own, such as https://chat.example.",
				`^https?://[^/]+$`, checkOrigin)},
			{"allowed_hosts", stringList(&m.AllowedHosts, "Names under which clients may reach the endpoint, with or without a port, beside localhost and loopback addresses.",
				`^[^/ ]+$`, checkHost)},
		},
	}
}

// stringList is a list of strings that pass a check.
func stringList(to *[]string, about, pattern string, check func(string) error) shape {
	return &list{about: about, item: func() shape {
		var one string
		s := text(&one, "", "", pattern, check)
		set := s.set
		s.set = func(value string) error {
			if err := set(value); err != nil {
				return err
			}
			*to = append(*to, one)
			return nil
		}
		return s
	}}
}

func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
		return fmt.Errorf("%q is no origin; write it as in https://chat.example", origin)
	}
	return nil
}

func checkHost(host string) error {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || host == "" {
		return fmt.Errorf("%q is no host; write a name, or name:port", host)
	}
	return nil
}

// joinPort makes an address of a host, for loopback.
func joinPort(host string) string { return net.JoinHostPort(host, "0") }
