package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"interlock/audit"
)

// SessionInfo describes a session of the PostgreSQL door.
type SessionInfo struct {
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
func (x *Index) Sessions(ctx context.Context, f audit.Filter) ([]SessionInfo, error) {
	c := conditions{where: []string{"true"}}
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
	underWay, err := x.sessionsUnderWay(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
	}
	rows, err := x.db.QueryContext(ctx, `select s.id, s.hash, w.identity, w.source, w.application, s.client, s.opened, s.closed, s.statements
		from session s join who w on w.id = s.who where `+strings.Join(c.where, " and ")+" order by s.opened desc limit ?",
		append(c.args, cmp.Or(f.Limit, -1))...)
	if err != nil {
		return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
	}
	defer rows.Close()
	all := []SessionInfo{}
	for rows.Next() {
		var s SessionInfo
		var opened, hash int64
		var closed sql.NullInt64
		if err := rows.Scan(&s.Session, &hash, &s.Identity, &s.Source, &s.Application, &s.Client, &opened, &closed, &s.Statements); err != nil {
			return nil, fmt.Errorf("reading sessions from the audit index: %w", err)
		}
		s.Opened = time.Unix(0, opened).UTC()
		if closed.Valid {
			t := time.Unix(0, closed.Int64).UTC()
			s.Closed = &t
		} else {
			s.Statements += underWay[hash]
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// sessionsUnderWay counts the statements of sessions in the block under way, by their hashes.
func (x *Index) sessionsUnderWay(ctx context.Context) (map[int64]int64, error) {
	sealed, err := cursorOf(ctx, x.db, "sealed")
	if err != nil {
		return nil, err
	}
	var events conditions
	events.add("event <> ''")
	event, err := events.ids(ctx, x.db, "ending")
	if err != nil {
		return nil, err
	}
	var first uint64
	var head, keys []byte
	err = x.db.QueryRowContext(ctx, "select first, head, keys from block where first > ?", sealed.Seq).Scan(&first, &head, &keys)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := readHead(head, nil)
	if err != nil {
		return nil, err
	}
	var b blockData
	if err := b.open(first, h, keys); err != nil {
		return nil, err
	}
	counts := map[int64]int64{}
	sessions, endings := b.column(colSession), b.column(colEnding)
	for i := range sessions {
		if !event.has(b.value(dictEnding, endings[i])) {
			counts[b.value(dictSession, sessions[i])]++
		}
	}
	return counts, b.damage()
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)
