package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"interlock/mcp"
	"interlock/sqlgov"
)

// scripted stands in for the core where a test is about the door alone: it does what the statement says.
type scripted struct {
	results  map[string]*sqlgov.Result  // by SQL
	refusals map[string]*sqlgov.Refusal // by SQL
	running  chan struct{}              // gets a value when "block" or "wait" runs
	release  chan struct{}              // ends "wait"; "block" ends with its caller

	mu       sync.Mutex
	requests []sqlgov.Request
	recorded []record
}

type record struct {
	caller  sqlgov.Caller
	source  string
	refusal sqlgov.Refusal
}

const decision = "01JDQ8Z4W5V3N2M1K0H9G8F7E6"

func (s *scripted) Query(ctx context.Context, req sqlgov.Request) (*sqlgov.Result, error) {
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.mu.Unlock()
	if req.SQL == "block" {
		s.running <- struct{}{}
		<-ctx.Done()
		return nil, &sqlgov.Refusal{Kind: sqlgov.Canceled, SQLState: "57014", Message: "canceled", Err: ctx.Err()}
	}
	if req.SQL == "wait" {
		s.running <- struct{}{}
		<-s.release
		req.SQL = "select 1"
	}
	if r, found := s.refusals[req.SQL]; found {
		return nil, r
	}
	if res, found := s.results[req.SQL]; found {
		return res, nil
	}
	return nil, errors.New("dial tcp 10.1.2.3:5432: password=hunter2")
}

func (s *scripted) Sources(context.Context, sqlgov.Caller) ([]sqlgov.SourceInfo, string, error) {
	return []sqlgov.SourceInfo{{ID: "shop", Kind: "postgres", Description: "orders", Roles: []string{"analyst"}, Status: "active"}}, decision, nil
}

func (s *scripted) DescribeAccess(_ context.Context, _ sqlgov.Caller, source string) (map[string]sqlgov.Access, string, error) {
	if source != "" && source != "shop" {
		return map[string]sqlgov.Access{}, decision, nil
	}
	return map[string]sqlgov.Access{
		"shop": {Roles: []string{"analyst"}, Resources: sqlgov.Resources{Enforced: true, Catalogued: true,
			ScannedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Tables:    []sqlgov.TableAccess{{Table: "crm.customers", Columns: []string{"id", "name"}}}}},
	}, decision, nil
}

func (s *scripted) DescribeSource(_ context.Context, _ sqlgov.Caller, source string) ([]sqlgov.ColumnInfo, string, error) {
	if source != "shop" {
		return nil, "", unknownSource()
	}
	return []sqlgov.ColumnInfo{{TableSchema: "crm", TableName: "customers", ColumnName: "id", DataType: "bigint"}}, decision, nil
}

func (s *scripted) Discover(_ context.Context, _ sqlgov.Caller, source string, search sqlgov.Search) (*sqlgov.Discovery, error) {
	if source != "shop" {
		return nil, unknownSource()
	}
	return &sqlgov.Discovery{SourceID: source, Results: []sqlgov.Document{{Name: fmt.Sprintf("%+v", search)}}, DecisionID: decision}, nil
}

func (s *scripted) RelatedTo(_ context.Context, _ sqlgov.Caller, asset string, _ int) (*sqlgov.RelatedDocuments, error) {
	return &sqlgov.RelatedDocuments{AssetID: asset, Results: []sqlgov.Document{}, Relations: []sqlgov.Related{}, DecisionID: decision}, nil
}

func (s *scripted) ShowApproval(_ context.Context, _ sqlgov.Caller, id string) (*sqlgov.ApprovalView, error) {
	return &sqlgov.ApprovalView{ID: id, State: sqlgov.ApprovalPending}, nil
}

func (s *scripted) RecordRefusal(_ context.Context, caller sqlgov.Caller, source string, r *sqlgov.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, record{caller, source, *r})
	r.DecisionID = decision
}

func (s *scripted) lastRecord(t *testing.T) record {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recorded) == 0 {
		t.Fatal("nothing was recorded")
	}
	return s.recorded[len(s.recorded)-1]
}

func unknownSource() *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.UnknownSource, SQLState: "3D000", Message: `There is no source "nowhere".`, DecisionID: decision}
}

// oneKey knows a single key.
type oneKey struct{}

func (oneKey) Bearer(_ context.Context, token string) (string, string, error) {
	if token == "ana-key" {
		return "ana", "key1", nil
	}
	return "", "", &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000", Message: "The API key is not valid."}
}

// newScripted is a server in front of a core that refuses in every way there is: the statement "refuse N" gets the
// refusal of kind N.
func newScripted() (*mcp.Server, *scripted) {
	core := &scripted{running: make(chan struct{}, 1), release: make(chan struct{}), results: map[string]*sqlgov.Result{}, refusals: map[string]*sqlgov.Refusal{}}
	core.results["select 1"] = &sqlgov.Result{
		DecisionID: decision,
		Columns:    []sqlgov.ResultColumn{{Name: "?column?", Type: 23, TypeName: "integer"}},
		Rows:       [][][]byte{{[]byte("1")}},
		Tag:        "SELECT 1",
		Limit:      1000,
	}
	return &mcp.Server{Core: core, Authenticator: oneKey{}, Version: "test"}, core
}
