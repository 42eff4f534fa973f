package sqlgov

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"interlock/audit"
)

// event records something that happened to a caller and is no request. id is that of the decision concerned, or "".
func (c *Core) event(caller Caller, source, id string, ev *audit.Event) error {
	if id == "" {
		id = audit.NewID()
	}
	rec := caller.record(source)
	rec.ID, rec.Time = id, time.Now()
	return c.Audit.Event(context.Background(), &rec, ev)
}

// record is what an audit record says of a caller.
func (c *Caller) record(source string) audit.Record {
	return audit.Record{Identity: c.Identity, KeyID: c.KeyID, Door: string(c.Door), ClientAddr: c.ClientAddr,
		Application: c.Application, Session: c.Session, Trace: c.Trace, Source: source}
}

// witnessAlarm records that the server did what was not predicted. The result is withheld in any case, so that the
// event cannot be recorded is logged only.
func (c *Core) witnessAlarm(caller Caller, source, id, what string) {
	err := c.event(caller, source, id, &audit.Event{Name: audit.WitnessAlarm, Attributes: map[string]string{"found": what}})
	if err != nil {
		c.Log.Error().Err(err).Str("decision", id).Msg("alarm of the second witness not recorded")
	}
}

// tally counts what a session did, for the event that it ends with.
type tally struct {
	opened     time.Time
	statements atomic.Int64
	closed     sync.Once
}

// open records that a session was opened. Nothing is served without that.
func (s *Session) open(server string) *Refusal {
	s.tally.opened = time.Now()
	ev := &audit.Event{Name: audit.SessionOpened, Attributes: map[string]string{}}
	if server != "" {
		ev.Attributes["server_version"] = server
	}
	if err := s.core.event(s.caller, s.source, "", ev); err != nil {
		return auditUnavailable(err)
	}
	return nil
}

// recordClose records, once, that the session has ended.
func (s *Session) recordClose() {
	s.tally.closed.Do(func() {
		ev := &audit.Event{Name: audit.SessionClosed, Attributes: map[string]string{
			"statements":  strconv.FormatInt(s.tally.statements.Load(), 10),
			"duration_ms": strconv.FormatInt(time.Since(s.tally.opened).Milliseconds(), 10)}}
		if err := s.core.event(s.caller, s.source, "", ev); err != nil {
			s.core.Log.Error().Err(err).Str("session", s.caller.Session).Msg("end of a session not recorded")
		}
	})
}

func parameter(all []Parameter, name string) string {
	for _, p := range all {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// sealers are the means to seal full texts, by owner's key.
type sealers struct{ byKey sync.Map }

func (s *sealers) of(key string) (*audit.Sealer, error) {
	if found, ok := s.byKey.Load(key); ok {
		return found.(*audit.Sealer), nil
	}
	made, err := audit.NewSealer(key)
	if err != nil {
		return nil, err
	}
	found, _ := s.byKey.LoadOrStore(key, made)
	return found.(*audit.Sealer), nil
}

// fullText is what is sealed for the owner.
type fullText struct {
	SQL string `json:"sql"`
	// Parameters are text as it was sent, {"hex": ...} for the binary format, or null.
	Parameters []any `json:"parameters,omitempty"`
}

// seal returns the full text for the holders of the owner's key, if the ruleset says to keep it.
func (a *admission) seal() (string, error) {
	if a.rules == nil || a.rules.Document.Audit.KeepText == "" || a.sql == "" {
		return "", nil
	}
	sealer, err := a.core.sealers.of(a.rules.Document.Audit.KeepText)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(fullText{a.sql, a.bound.decode()})
	if err != nil {
		return "", err
	}
	return sealer.Seal(a.id, string(text))
}
