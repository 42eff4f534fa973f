// Package config reads interlock.yaml and the governance document, strictly: what it does not know is an error with
// file, line and column, and all errors of a file are reported together.
//
// Both files are YAML. A value may hold variables, ${NAME}, which come from the environment; an unset one is an error.
// Secrets are never written into a file: they are references, env:NAME or file:PATH, which Resolve turns into values
// when they are needed. The JSON Schemas in docs/schema describe both files.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Config is interlock.yaml: how this node of the gateway runs. What it governs is in the governance document.
type Config struct {
	File       string    `json:"file"`       // absolute path of the file that was read; "" for Default
	DataDir    string    `json:"data_dir"`   // control store, audit log
	Governance string    `json:"governance"` // path of the governance document
	Listeners  Listeners `json:"listeners"`
	Store      Store     `json:"store"`
	Audit      Audit     `json:"audit"`
	Limits     Limits    `json:"limits"`
	Approvals  Approvals `json:"approvals"`
	Breaker    Breaker   `json:"breaker"`
	Redis      Redis     `json:"redis,omitzero"`
	MCP        MCP       `json:"mcp"`
	Log        Log       `json:"log"`
}

// Listeners are the addresses that are listened on.
type Listeners struct {
	PGWire Listener `json:"pgwire"`
	MCP    Listener `json:"mcp"`
	Admin  Listener `json:"admin"`
}

// Listener is one address. One that is not on the loopback interface has TLS.
type Listener struct {
	Address  string `json:"address"` // host:port; port 0 picks a free one
	Disabled bool   `json:"disabled,omitempty"`
	TLS      *TLS   `json:"tls,omitempty"` // nil: no TLS
}

// TLS names PEM files.
type TLS struct {
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	ClientCA string `json:"client_ca,omitempty"` // clients must show a certificate that this authority signed; "": none needed
}

// Store is where control data is kept.
type Store struct {
	Driver string `json:"driver"`        // "sqlite"
	Dir    string `json:"dir,omitempty"` // of the database and the server's secret; "": the data directory
}

// Audit is how the audit log is written.
type Audit struct {
	Node               string        `json:"node,omitempty"` // "": the host's name
	Sync               string        `json:"sync"`           // "group", "always" or "relaxed"
	SyncInterval       time.Duration `json:"sync_interval"`
	RelaxedWindow      time.Duration `json:"relaxed_window"`
	SegmentBytes       int64         `json:"segment_bytes"`
	Compression        string        `json:"compression"` // "zstd" or "none"
	CompressionBacklog int64         `json:"compression_backlog"`
	CheckpointInterval time.Duration `json:"checkpoint_interval"`
	Sinks              []AuditSink   `json:"sinks,omitempty"`
	SharedIndex        SharedIndex   `json:"shared_index,omitzero"`
}

// SharedIndex is the index of the audit logs of many nodes. Without a DSN there is none.
type SharedIndex struct {
	DSN string `json:"dsn,omitempty"` // reference
}

// AuditSink is a place that the audit log is sent to.
type AuditSink struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`              // "file", "http" or "syslog"
	Path    string `json:"path,omitempty"`    // of a file
	URL     string `json:"url,omitempty"`     // of an HTTP endpoint
	Token   string `json:"token,omitempty"`   // reference to the bearer token of an HTTP endpoint
	Address string `json:"address,omitempty"` // of a syslog server: udp://, tcp://, tls:// host:port, or unix:// path
	CA      string `json:"ca,omitempty"`      // file with authorities for https and tls://, instead of the system's
	Only    string `json:"only"`              // "all" or "checkpoints"
}

// Limits bound what clients may take from this node. Every field has its default set by Load and Default.
type Limits struct {
	MaxConnections            int           `json:"max_connections"`
	MaxConnectionsPerIdentity int           `json:"max_connections_per_identity"`
	MaxUnauthenticated        int           `json:"max_unauthenticated"`
	LoginTimeout              time.Duration `json:"login_timeout"`
	IdleTimeout               time.Duration `json:"idle_timeout"` // 0: never
	MaxMessageBytes           int64         `json:"max_message_bytes"`
	MaxStatementBytes         int64         `json:"max_statement_bytes"`
	MaxStatementTokens        int           `json:"max_statement_tokens"`
	MaxStatements             int           `json:"max_statements"`
	FactsCacheBytes           int64         `json:"facts_cache_bytes"`
	ResultCacheBytes          int64         `json:"result_cache_bytes"`
	// WriteLease is how long beyond its statement timeout a write of a node that is not heard of counts as under way.
	WriteLease             time.Duration `json:"write_lease"`
	MCPBodyBytes           int64         `json:"mcp_body_bytes"`
	MCPConcurrency         int           `json:"mcp_concurrency"`
	UpstreamConnectTimeout time.Duration `json:"upstream_connect_timeout"`
	UpstreamWaitTimeout    time.Duration `json:"upstream_wait_timeout"`
	UpstreamIdleTimeout    time.Duration `json:"upstream_idle_timeout"`
	UpstreamLifetime       time.Duration `json:"upstream_lifetime"`
	ShutdownTimeout        time.Duration `json:"shutdown_timeout"`
	PeerIdleTimeout        time.Duration `json:"peer_idle_timeout"`
	PeerStalledTimeout     time.Duration `json:"peer_stalled_timeout"`
	// StrangerFailures is how many requests of one client address that prove no identity are recorded each minute.
	StrangerFailures int `json:"stranger_failures"`
}

// Breaker says when a source counts as lost.
type Breaker struct {
	Failures int           `json:"failures"` // in a row
	Pause    time.Duration `json:"pause"`
}

// Redis is where nodes share state. Without a URL they do not.
type Redis struct {
	URL       string        `json:"url,omitempty"` // reference
	CA        string        `json:"ca,omitempty"`
	Prefix    string        `json:"prefix,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
	LostShare int           `json:"lost_share,omitempty"` // percent
}

// MCP says who may reach the MCP endpoint from a browser and under which names.
type MCP struct {
	AllowedOrigins []string `json:"allowed_origins,omitempty"`
	AllowedHosts   []string `json:"allowed_hosts,omitempty"`
}

// Log is the operational log, on standard error.
type Log struct {
	Level  string `json:"level"`  // debug, info, warn, error
	Format string `json:"format"` // json or console
}

// Default is the configuration of an empty interlock.yaml in the working directory.
func Default() *Config {
	var c Config
	shapeOf(&c).absent()
	return &c
}

// StoreDir is the directory of the control store and of the server's secret.
func (c *Config) StoreDir() string {
	if c.Store.Dir != "" {
		return c.Store.Dir
	}
	return c.DataDir
}

// Load reads interlock.yaml. Paths in it are relative to its directory. If the file can be read but is wrong, the
// error is of type Problems.
func Load(path string) (*Config, error) {
	data, abs, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := parse(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	c.File = abs
	c.anchor(filepath.Dir(abs))
	return c, nil
}

func parse(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	r := &reader{file: name, lookup: lookup}
	c := &Config{}
	r.document(data, shapeOf(c))
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// anchor makes the paths of the file absolute.
func (c *Config) anchor(dir string) {
	paths := []*string{&c.DataDir, &c.Governance, &c.Redis.CA, &c.Store.Dir}
	if path, isFile := cutFile(c.Approvals.Webhook.Secret); isFile {
		c.Approvals.Webhook.Secret = "file:" + under(dir, path)
	}
	if path, isFile := cutFile(c.Redis.URL); isFile {
		c.Redis.URL = "file:" + under(dir, path)
	}
	if path, isFile := cutFile(c.Audit.SharedIndex.DSN); isFile {
		c.Audit.SharedIndex.DSN = "file:" + under(dir, path)
	}
	for i := range c.Audit.Sinks {
		paths = append(paths, &c.Audit.Sinks[i].Path)
		if path, isFile := cutFile(c.Audit.Sinks[i].Token); isFile {
			c.Audit.Sinks[i].Token = "file:" + under(dir, path)
		}
	}
	for _, l := range []*Listener{&c.Listeners.PGWire, &c.Listeners.MCP, &c.Listeners.Admin} {
		if l.TLS != nil {
			paths = append(paths, &l.TLS.Cert, &l.TLS.Key, &l.TLS.ClientCA)
		}
	}
	for _, p := range paths {
		*p = under(dir, *p)
	}
}

func under(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func readFile(path string) (data []byte, abs string, err error) {
	if abs, err = filepath.Abs(path); err != nil {
		return nil, "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	// One byte more than is accepted is enough to see that there is too much.
	data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	return data, abs, err
}
