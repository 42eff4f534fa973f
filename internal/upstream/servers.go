package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgconn"
)

// lostFor is how long a server that could not be reached is tried after all others.
const lostFor = 10 * time.Second

// servers is what is known of the servers of one source.
type servers struct {
	mu     sync.Mutex
	lost   map[policy.Server]time.Time // since when a server cannot be reached
	system string                      // system identifier that all must have; "" before the first has answered
}

// order returns the servers in the order in which they are tried: as listed, but those that were lost a moment ago last.
func (s *servers) order(ts []*target, now time.Time) []*target {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first, last []*target
	for _, t := range ts {
		if since, lost := s.lost[t.server]; lost && now.Sub(since) < lostFor {
			last = append(last, t)
		} else {
			first = append(first, t)
		}
	}
	return append(first, last...)
}

func (s *servers) note(server policy.Server, reached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reached {
		delete(s.lost, server)
		return
	}
	if s.lost == nil {
		s.lost = make(map[policy.Server]time.Time)
	}
	s.lost[server] = time.Now()
}

// same reports if a server has the data of the others: physical copies of a database share its system identifier.
func (s *servers) same(system string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.system == "" {
		s.system = system
	}
	return s.system == system
}

// reach opens something on the first server of a source that can be reached and fits. Within Config.DialTimeout every
// server has its turn. A server that turns the login down, or that has other data than the others, ends the search: to pass over
// it would hide a mistake.
func reach[T any](ctx context.Context, p *Pool, src *policy.SourceSpec, open func(context.Context, *target) (T, error)) (T, error) {
	var none T
	ts, err := p.targets(src)
	if err != nil {
		return none, err
	}
	dialing, cancel := context.WithTimeout(ctx, p.cfg.DialTimeout)
	defer cancel()
	wanted := rounds(src.Upstream.Target)
	left := len(wanted) * len(ts)
	var failed []error
	for _, want := range wanted {
		for _, t := range ts[0].servers.order(ts, time.Now()) {
			v, err := attempt(dialing, p, t.wanting(want), left, open)
			if err == nil {
				return v, nil
			}
			if ctx.Err() != nil {
				return none, ctx.Err()
			}
			if failed = append(failed, err); !elsewhere(openReason(err)) {
				return none, openError(ctx, err)
			}
			left--
		}
	}
	return none, &sqlgov.OpenError{Reason: commonReason(failed), Err: errors.Join(failed...)}
}

// rounds are the demands on a server that are tried one after the other.
func rounds(target string) []string {
	if target == policy.TargetPreferStandby {
		return []string{policy.TargetStandby, policy.TargetAny}
	}
	return []string{target}
}

// attempt tries one server for its share of the time, left being the attempts that are still possible with this one.
func attempt[T any](ctx context.Context, p *Pool, t *target, left int, open func(context.Context, *target) (T, error)) (T, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	var v T
	err := p.probe(ctx, t)
	if err == nil {
		v, err = open(ctx, t)
	}
	if t.several {
		t.servers.note(t.server, err == nil || !lostBy(err))
	}
	return v, err
}

// lostBy reports if an error means that a server cannot be reached, and not only that it does not fit.
func lostBy(err error) bool {
	return openReason(err) == sqlgov.OpenUnreachable && !errors.Is(err, errMisfit)
}

// elsewhere reports if another server may do where one has failed.
func elsewhere(r sqlgov.OpenReason) bool {
	return r == sqlgov.OpenUnreachable || r == sqlgov.OpenTLS || r == sqlgov.OpenTooMany
}

// commonReason is why all servers have failed: the reason that they share, or that none can be had.
func commonReason(failed []error) sqlgov.OpenReason {
	common := openReason(failed[0])
	for _, err := range failed[1:] {
		if openReason(err) != common {
			return sqlgov.OpenUnreachable
		}
	}
	return common
}

// errMisfit is why a server that answers is passed over.
var errMisfit = errors.New("the server is not of the kind that target_session_attrs asks for")

// fitSQL asks a server what it is. Both functions are for everyone, unless an administrator has revoked them.
const fitSQL = "select pg_catalog.pg_is_in_recovery()::text, system_identifier::text from pg_catalog.pg_control_system()"

// fits looks at a server that has accepted the login, before anything else is asked of it.
func (t *target) fits(ctx context.Context, pc *pgconn.PgConn) error {
	results, err := pc.Exec(ctx, fitSQL).ReadAll()
	if err != nil {
		return fmt.Errorf("asking %s what it is: %w", t.server, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 2 {
		return fmt.Errorf("asking %s what it is: it gave no answer", t.server)
	}
	standby, system := string(results[0].Rows[0][0]) == "true", string(results[0].Rows[0][1])
	if t.several && !t.servers.same(system) {
		return &dialError{sqlgov.OpenRejected, fmt.Errorf("%s is no copy of the database that another server of the source has (its system identifier is %s); "+
			"if it has replaced it, restart the gateway", t.server, system)}
	}
	if !t.suits(standby, pc.ParameterStatus("default_transaction_read_only") == "on") {
		return &dialError{sqlgov.OpenUnreachable, fmt.Errorf("%s: %w: %s", t.server, errMisfit, t.want)}
	}
	return nil
}

// suits compares what a server is with what is wanted. What the server says of the default of a transaction is its own only while it is
// probed; after that it may be what we asked for.
func (t *target) suits(standby, readOnly bool) bool {
	switch t.want {
	case policy.TargetPrimary:
		return !standby
	case policy.TargetStandby:
		return standby
	case policy.TargetReadWrite:
		return !standby && !(t.probing && readOnly)
	case policy.TargetReadOnly:
		return standby || readOnly || !t.probing
	}
	return true
}

// probe asks a server over a connection of its own what the default of its transactions is, if that matters: sessions that may only read
// begin with a default of ours.
func (p *Pool) probe(ctx context.Context, t *target) error {
	if t.want != policy.TargetReadWrite && t.want != policy.TargetReadOnly {
		return nil
	}
	probing := *t
	probing.probing = true
	cfg := &p.connConfig(&probing, nil).Config
	cfg.MaxProtocolMessageBodyLen = startMessage
	pc, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	return pc.Close(ctx)
}
