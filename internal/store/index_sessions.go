package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"interlock/audit"
)

// SessionInfo describes a session of the PostgreSQL door.
type SessionInfo struct {
	Node        string     `json:"node,omitempty"` // of an index that nodes share
	Session     string     `json:"session"`
	Identity    string     `json:"identity"`
	Source      string     `json:"source"`
	Application string     `json:"application,omitempty"`
	Client      string     `json:"client"`
	Opened      time.Time  `json:"opened"`
	Closed      *time.Time `json:"closed,omitempty"`
	Statements  int64      `json:"statements"`
}

// Sessions returns the sessions that the filter's identity, source, client, application and times select, newest first.
func (x *Index) Sessions(ctx context.Context, f audit.Filter) (all []SessionInfo, err error) {
	err = viewed(ctx, x.db, sqlite, func(db queryer) error {
		all, err = sessions(ctx, db, &f, map[int64]string{0: ""})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
	}
	return all, nil
}

// sessions returns the sessions of parts of an index, which have the names of their nodes.
func sessions(ctx context.Context, db queryer, f *audit.Filter, parts map[int64]string) ([]SessionInfo, error) {
	underWay, err := sessionsUnderWay(ctx, db, parts)
	if err != nil {
		return nil, err
	}
	c := sessionConditions(f)
	rows, err := db.QueryContext(ctx, `select s.part, s.id, s.hash, w.identity, w.source, w.application, s.client, s.opened, s.closed, s.statements
		from session s join who w on w.id = s.who where `+strings.Join(c.where, " and ")+" order by s.opened desc limit ?",
		append(c.args, cmp.Or(int64(f.Limit), math.MaxInt64))...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []SessionInfo{}
	for rows.Next() {
		var s SessionInfo
		var part, opened, hash int64
		var closed sql.NullInt64
		if err := rows.Scan(&part, &s.Session, &hash, &s.Identity, &s.Source, &s.Application, &s.Client, &opened, &closed, &s.Statements); err != nil {
			return nil, err
		}
		s.Node, s.Opened = parts[part], time.Unix(0, opened).UTC()
		if closed.Valid {
			t := time.Unix(0, closed.Int64).UTC()
			s.Closed = &t
		} else {
			s.Statements += underWay[partHash{part, hash}]
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

func sessionConditions(f *audit.Filter) *conditions {
	c := &conditions{where: []string{"true"}}
	c.equal("w.identity", f.Identity)
	c.equal("w.source", f.Source)
	c.equal("w.application", f.Application)
	if f.Client != "" {
		c.add("(s.client = ? or s.client like ? escape '\\')", f.Client, likeEscaper.Replace(f.Client)+":%")
	}
	if !f.Since.IsZero() {
		c.add("coalesce(s.closed, 9223372036854775807) >= ?", f.Since.UnixNano())
	}
	if !f.Until.IsZero() {
		c.add("s.opened < ?", f.Until.UnixNano())
	}
	return c
}

// partHash is a session by its part and its hash.
type partHash struct{ part, hash int64 }

// sessionsUnderWay counts the statements of sessions in the blocks under way.
func sessionsUnderWay(ctx context.Context, db queryer, parts map[int64]string) (map[partHash]int64, error) {
	var events conditions
	events.add("event <> ''")
	event, err := events.ids(ctx, db, "ending")
	if err != nil {
		return nil, err
	}
	counts := map[partHash]int64{}
	for part := range parts {
		if err := countUnderWay(ctx, db, part, event, counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func countUnderWay(ctx context.Context, db queryer, part int64, event idSet, counts map[partHash]int64) error {
	sealed, err := markOf(ctx, db, part, "sealed")
	if err != nil {
		return err
	}
	var first uint64
	var head, keys, details blob
	err = db.QueryRowContext(ctx, "select first, head, keys, details from block where part = ? and first > ? and length(keys) > 0", part, sealed.Seq).Scan(&first, &head, &keys, &details)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var h blockHead
	if err := h.read(head, nil, headDicts); err != nil {
		return err
	}
	var b blockData
	if err := errors.Join(b.open(first, &h, keys), b.addDetails(details)); err != nil {
		return err
	}
	sessions, endings := b.column(colSession), b.column(colEnding)
	for i := range sessions {
		if !event.has(b.value(dictEnding, endings[i])) {
			counts[partHash{part, b.value(dictSession, sessions[i])}]++
		}
	}
	return b.damage()
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)
