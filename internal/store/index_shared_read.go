package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"interlock/audit"
)

// SharedIndex finds requests of all nodes in the index that they share. It is safe for concurrent use.
type SharedIndex struct{ db *sql.DB }

// ReadShared opens the index in a database to read it.
func ReadShared(ctx context.Context, dsn string) (*SharedIndex, error) {
	db, err := sharedDB(dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(1)
	if err := sharedExists(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the shared audit index: %w", err), db.Close())
	}
	return &SharedIndex{db}, nil
}

// Close closes the index.
func (x *SharedIndex) Close() error { return x.db.Close() }

// Part is what the index has of one log.
type Part struct {
	Node    string    `json:"node"`
	Log     string    `json:"log"`     // by which the log is known
	Entries uint64    `json:"entries"` // the last one that is in the index
	Pruned  uint64    `json:"pruned"`  // up to this one they were pruned
	Written time.Time `json:"written"`

	id int64
}

// Parts lists the parts, by the names of their nodes.
func (x *SharedIndex) Parts(ctx context.Context) (all []Part, err error) {
	err = viewed(ctx, x.db, postgres, func(db queryer) error {
		if all, err = parts(ctx, db); err != nil {
			return err
		}
		for i := range all {
			for key, to := range map[string]*uint64{"cursor": &all[i].Entries, "pruned": &all[i].Pruned} {
				m, err := markOf(ctx, db, all[i].id, key)
				if err != nil {
					return err
				}
				*to = m.Seq
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the shared audit index: %w", err)
	}
	return all, nil
}

func parts(ctx context.Context, db queryer) ([]Part, error) {
	rows, err := db.QueryContext(ctx, "select id, node, log, coalesce(written, to_timestamp(0)) from part order by node, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []Part{}
	for rows.Next() {
		var p Part
		if err := rows.Scan(&p.id, &p.Node, &p.Log, &p.Written); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

// Search calls yield for the requests of all nodes that f selects, by time, each with the name of its node and without what is
// sealed. It does not know of what a node has recorded since it was here last.
func (x *SharedIndex) Search(ctx context.Context, f audit.Filter, yield func(audit.View) bool) error {
	return viewed(ctx, x.db, postgres, func(db queryer) error {
		all, err := parts(ctx, db)
		if err != nil {
			return fmt.Errorf("searching the shared audit index: %w", err)
		}
		w, err := wantedBy(ctx, db, &f)
		if err != nil {
			return fmt.Errorf("searching the shared audit index: %w", err)
		}
		searches := make([]audit.Searcher, 0, len(all))
		for i := range all {
			from := &keptTexts{db: db, part: all[i].id, node: all[i].Node}
			searches = append(searches, func(yield func(audit.View) bool) error { return search(ctx, db, w, from, yield) })
		}
		return audit.Merge(searches, f.OldestFirst, f.Limit, yield)
	})
}

// Sessions returns sessions of all nodes as Index.Sessions does.
func (x *SharedIndex) Sessions(ctx context.Context, f audit.Filter) (list []SessionInfo, err error) {
	err = viewed(ctx, x.db, postgres, func(db queryer) error {
		all, err := parts(ctx, db)
		if err != nil {
			return err
		}
		nodes := map[int64]string{}
		for i := range all {
			nodes[all[i].id] = all[i].Node
		}
		list, err = sessions(ctx, db, &f, nodes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading sessions from the shared audit index: %w", err)
	}
	return list, nil
}

// Stats counts requests of all nodes as Index.Stats does.
func (x *SharedIndex) Stats(ctx context.Context, f audit.Filter, by []string) ([]Count, error) {
	return stats(ctx, x.db, postgres, &f, by)
}
