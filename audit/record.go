package audit

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// Type says what an entry is.
type Type string

// The types of entry.
const (
	TypeIntent  Type = "intent"
	TypeOutcome Type = "outcome"
	TypeRequest Type = "request"
	TypeEvent   Type = "event"
)

// Status is how a request ended.
type Status string

// The statuses. The last two are never written: a View has them when there is no outcome.
const (
	OK         Status = "ok"
	Refused    Status = "refused"  // turned down by the gateway, before or after it ran (a withheld result)
	Failed     Status = "failed"   // the upstream reported an error
	Canceled   Status = "canceled" // by the caller, a timeout or a lost client
	Unknown    Status = "unknown"  // the connection to the upstream broke: it may have run or not
	Running    Status = "running"
	Unfinished Status = "unfinished" // the log was opened again since: the gateway died while it ran
)

// Record is one request: who asked for what, and what was decided.
type Record struct {
	Time        time.Time `json:"time"` // when the request came in
	ID          string    `json:"id"`   // the decision id, from NewID
	Identity    string    `json:"identity,omitempty"`
	KeyID       string    `json:"key,omitempty"`
	Door        string    `json:"door,omitempty"`
	ClientAddr  string    `json:"client,omitempty"`
	Application string    `json:"application,omitempty"`
	Session     string    `json:"session,omitempty"`
	Source      string    `json:"source,omitempty"`
	// Trace is the W3C trace context (traceparent) that the caller sent with the request.
	Trace string `json:"trace,omitempty"`
	// Sealed is the full text of the statement and its parameters for holders of the owner's key, as Sealer.Seal makes it.
	Sealed string `json:"sealed,omitempty"`
	// Judgement is nil when the request was turned down before anything was judged.
	*Judgement
}

// Judgement is the part of a record that is the same for every request that meets the same decision. Its encoding is
// kept after the first use, so one value should be shared; it must not be changed or copied once it is in a record.
type Judgement struct {
	Ruleset       int64  `json:"ruleset,omitempty"`
	RulesetDigest string `json:"ruleset_digest,omitempty"`
	Catalog       string `json:"catalog,omitempty"` // version of the catalog snapshot
	// Statement is the text with its literals replaced. It is cut at 64 KiB; StatementBytes is then its whole length.
	Statement      string   `json:"statement,omitempty"`
	StatementBytes int      `json:"statement_bytes,omitempty"`
	Fingerprint    string   `json:"fingerprint,omitempty"`
	Kinds          []string `json:"kinds,omitempty"`
	// Reads has schema.table.column, or schema.table if a table is read without any column.
	Reads []string `json:"reads,omitempty"`
	// Writes has an action, a space and a name like those in Reads: "insert crm.orders.id", "delete crm.orders".
	Writes    []string `json:"writes,omitempty"`
	Functions []string `json:"functions,omitempty"`
	Labels    []string `json:"labels,omitempty"`   // of the columns that it reads or writes, by the governance document
	Channels  []string `json:"channels,omitempty"` // with the action in front: "listen orders"; without a name where that is known only at run time
	Verdict   string   `json:"verdict,omitempty"`
	// Reasons is the decision's reasons as JSON.
	Reasons json.RawMessage `json:"reasons,omitempty"`
	// Write is set when the statement changes data: its intent is on the disk before it runs.
	Write bool `json:"write,omitempty"`

	encoded atomic.Pointer[[]byte]
}

// Outcome is how a request ended. It never carries the text of an upstream's error, which may hold literals.
type Outcome struct {
	ID       string        `json:"-"`        // the record's
	Time     time.Time     `json:"finished"` // when it ended
	Status   Status        `json:"status"`
	SQLState string        `json:"sqlstate,omitempty"`
	Rows     int64         `json:"rows,omitempty"`  // returned or changed
	Bytes    int64         `json:"bytes,omitempty"` // of the result
	Duration time.Duration `json:"duration_ns,omitempty"`
	Refusal  *Refusal      `json:"refusal,omitempty"`
	Cache    string        `json:"cache,omitempty"` // CacheHit, or nothing
	Masks    []Masked      `json:"masks,omitempty"` // an entry for each result column that was masked
	Found    []Found       `json:"found,omitempty"` // content that was found in free text, by kind
}

// Found counts content of a kind. It holds no value.
type Found struct {
	Kind   string `json:"kind"`
	Values int64  `json:"values"`
}

// CacheHit is for a result that was not asked of the source again.
const CacheHit = "hit"

// Masked is what was masked in one result column. It holds no value.
type Masked struct {
	Mask    string   `json:"mask"`    // its name, or "null"
	Columns []string `json:"columns"` // schema.table.column of the masked columns behind it
	Values  int64    `json:"values"`
}

// Refusal is what the caller was told. Every text is the gateway's own.
type Refusal struct {
	Kind    string `json:"kind"`
	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// Event is something other than a request that happened: a connection, an authentication, a new ruleset.
type Event struct {
	Name       string            `json:"name"` // dotted, for example ruleset.applied; "log." is the log's own
	Attributes map[string]string `json:"attributes,omitempty"`
}

// View is what the log says about one request or event: its entries merged by decision id.
type View struct {
	Node   string `json:"node,omitempty"` // set by who reads the logs of several nodes
	Seq    uint64 `json:"seq"`            // of the entry with the record
	Type   Type   `json:"type"`
	Status Status `json:"status,omitempty"` // empty for an event
	Record
	Outcome *Outcome `json:"outcome,omitempty"`
	Event   *Event   `json:"event,omitempty"`
}
