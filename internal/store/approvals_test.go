package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock/sqlgov"
)

var secretOfTests = bytes.Repeat([]byte{7}, 32)

func approvalsIn(t *testing.T, dir string) (*Store, *Approvals) {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	a, err := s.Approvals(secretOfTests)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

func waiting(id string) *sqlgov.Approval {
	now := time.Now().UTC()
	return &sqlgov.Approval{ID: id, State: sqlgov.ApprovalPending, Requester: "ana", Source: "shop", Created: now, Changed: now, Expires: now.Add(time.Hour),
		Held: sqlgov.HeldStatement{SQL: "update t set v = 'hunter2'", Parameters: sqlgov.BoundParameters{Values: [][]byte{[]byte("hunter2"), nil, {}}, Formats: []int16{0, 1, 0}}}}
}

func queue(t *testing.T, p *Approvals, id string) {
	t.Helper()
	if err := p.QueueApproval(t.Context(), waiting(id), 1000, 1000); err != nil {
		t.Fatal(err)
	}
}

func always([]sqlgov.Vote) bool { return true }

func stateOf(t *testing.T, p *Approvals, id string) sqlgov.ApprovalState {
	t.Helper()
	found, err := p.FindApprovals(t.Context(), sqlgov.ApprovalFilter{ID: id})
	if err != nil || len(found) != 1 {
		t.Fatalf("%v %v", found, err)
	}
	return found[0].State
}

// Neither the statement nor a word of anybody is readable in the files, and nothing that is sealed opens elsewhere.
func TestHeldStatementsAreSealed(t *testing.T) {
	dir := t.TempDir()
	s, p := approvalsIn(t, dir)
	queue(t, p, "A")
	queue(t, p, "B")
	if ok, err := p.VoteApproval(t.Context(), "A", sqlgov.Vote{By: "dora", Reject: true, Reason: "hunter2 again", At: time.Now()}, always); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := p.MoveApproval(t.Context(), sqlgov.ApprovalMove{ID: "B", From: []sqlgov.ApprovalState{sqlgov.ApprovalPending}, To: sqlgov.ApprovalVoid, Note: "hunter2 is gone"}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	found, err := p.FindApprovals(t.Context(), sqlgov.ApprovalFilter{})
	if err != nil || len(found) != 2 || found[1].Votes[0].Reason != "hunter2 again" || found[0].Note != "hunter2 is gone" {
		t.Fatalf("%+v %v", found, err)
	}
	if v := found[0].Held.Parameters.Values; string(v[0]) != "hunter2" || v[1] != nil || v[2] == nil {
		t.Errorf("parameters are not what they were: %q", v)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || bytes.Contains(b, []byte("hunter2")) {
			t.Errorf("%s: %v, or the value stands in it", f, err)
		}
	}
	for _, attack := range []string{
		"update approvals set held = (select held from approvals where id = 'B') where id = 'A'",
		"update approvals set requester = 'dora' where id = 'A'",
		"update approvals set expires_at = expires_at + 1 where id = 'A'",
		"update approvals set state = 'pending' where id = 'A'",
		"update approvals set state = 'approved' where id = 'B'",
		"update approval_votes set by = 'lena'",
	} {
		if _, err := s.db.Exec(attack); err == nil {
			t.Errorf("%s: possible", attack)
		}
	}
	// Somebody who takes the guards away still cannot put one statement in the place of another.
	for _, sql := range []string{"drop trigger approvals_keep_content", "update approvals set held = (select held from approvals where id = 'B') where id = 'A'"} {
		if _, err := s.db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.FindApprovals(t.Context(), sqlgov.ApprovalFilter{ID: "A"}); err == nil || !strings.Contains(err.Error(), "cannot be opened") {
		t.Errorf("%v", err)
	}
	other, err := s.Approvals(bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.FindApprovals(t.Context(), sqlgov.ApprovalFilter{ID: "B"}); err == nil {
		t.Error("another secret opens it")
	}
	if _, err := s.Approvals([]byte("short")); err == nil {
		t.Error("a short secret is good enough")
	}
}

// Of many who try one change in two open stores, one succeeds.
func TestOneClaimSucceeds(t *testing.T) {
	dir := t.TempDir()
	_, p := approvalsIn(t, dir)
	_, q := approvalsIn(t, dir)
	for _, id := range []string{"A", "B", "C"} {
		queue(t, p, id)
		var votes, claims atomic.Int32
		var all sync.WaitGroup
		for n := range 40 {
			at := []*Approvals{p, q}[n%2]
			all.Go(func() {
				by := string(rune('a' + n))
				if ok, err := at.VoteApproval(context.Background(), id, sqlgov.Vote{By: by, At: time.Now()}, always); err != nil {
					t.Error(err)
				} else if ok {
					votes.Add(1)
				}
				ok, err := at.MoveApproval(context.Background(), sqlgov.ApprovalMove{ID: id, From: []sqlgov.ApprovalState{sqlgov.ApprovalApproved},
					To: sqlgov.ApprovalExecuting, Claim: by, Lease: time.Now().Add(time.Hour), By: by})
				if err != nil {
					t.Error(err)
				} else if ok {
					claims.Add(1)
				}
			})
		}
		all.Wait()
		if votes.Load() != 1 || claims.Load() != 1 {
			t.Errorf("%s: %d votes counted, %d claims", id, votes.Load(), claims.Load())
		}
	}
}

func TestVotesAddUp(t *testing.T) {
	_, p := approvalsIn(t, t.TempDir())
	queue(t, p, "A")
	two := func(votes []sqlgov.Vote) bool { return len(votes) >= 2 }
	for _, tc := range []struct {
		by    string
		state sqlgov.ApprovalState
		ok    bool
	}{{"dora", sqlgov.ApprovalPending, true}, {"dora", sqlgov.ApprovalPending, false}, {"dirk", sqlgov.ApprovalApproved, true}, {"lena", sqlgov.ApprovalApproved, false}} {
		if ok, err := p.VoteApproval(t.Context(), "A", sqlgov.Vote{By: tc.by, At: time.Now()}, two); ok != tc.ok || err != nil || stateOf(t, p, "A") != tc.state {
			t.Errorf("%s: %v %v, %s", tc.by, ok, err, stateOf(t, p, "A"))
		}
	}
}

// What has expired can neither be approved nor claimed, and a claim whose lease has run out is reported; its own node may
// still say how it ended, and nobody else.
func TestExpiryAndLostClaims(t *testing.T) {
	s, p := approvalsIn(t, t.TempDir())
	old := waiting("OLD")
	old.Expires = old.Created.Add(time.Millisecond)
	late := waiting("LATE")
	late.Expires = late.Created.Add(50 * time.Millisecond)
	for _, a := range []*sqlgov.Approval{old, late} {
		if err := p.QueueApproval(t.Context(), a, 10, 10); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := p.VoteApproval(t.Context(), "OLD", sqlgov.Vote{By: "dora", At: old.Expires}, always); ok || err != nil {
		t.Errorf("an expired one is approved: %v %v", ok, err)
	}
	if ok, err := p.VoteApproval(t.Context(), "LATE", sqlgov.Vote{By: "dora", At: late.Created}, always); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for time.Now().Before(late.Expires) {
		time.Sleep(time.Until(late.Expires))
	}
	claim := func(id, claim string, lease time.Time) bool {
		ok, err := p.MoveApproval(t.Context(), sqlgov.ApprovalMove{ID: id, From: []sqlgov.ApprovalState{sqlgov.ApprovalApproved}, To: sqlgov.ApprovalExecuting, Claim: claim, Lease: lease, By: "n"})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if claim("LATE", "n/1", time.Now().Add(time.Hour)) {
		t.Error("one that was approved and has expired is claimed")
	}
	queue(t, p, "LOST")
	if ok, err := p.VoteApproval(t.Context(), "LOST", sqlgov.Vote{By: "dora", At: time.Now()}, always); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !claim("LOST", "n/1", time.Now().Add(-time.Second)) || claim("LOST", "n/2", time.Now()) {
		t.Error("the first claim counts, and only that")
	}
	if err := p.SweepApprovals(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if stateOf(t, p, "OLD") != sqlgov.ApprovalExpired || stateOf(t, p, "LATE") != sqlgov.ApprovalExpired || stateOf(t, p, "LOST") != sqlgov.ApprovalUnknown {
		t.Errorf("%s %s %s", stateOf(t, p, "OLD"), stateOf(t, p, "LATE"), stateOf(t, p, "LOST"))
	}
	settle := func(claim string) bool {
		ok, err := p.MoveApproval(t.Context(), sqlgov.ApprovalMove{ID: "LOST", From: []sqlgov.ApprovalState{sqlgov.ApprovalExecuting, sqlgov.ApprovalUnknown},
			To: sqlgov.ApprovalDone, Claim: claim, By: "n", Rows: 3})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if settle("n/2") || !settle("n/1") || settle("n/1") {
		t.Error("the node with the claim can say once how it ended")
	}
	acts, err := s.ActsToTake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var life []string
	for _, a := range acts {
		if a.Attributes["approval"] == "LOST" {
			life = append(life, a.Name)
		}
	}
	if want := []string{"approval.queued", "approval.vote", "approval.approved", "approval.claimed", "approval.unknown", "approval.executed"}; !slices.Equal(life, want) {
		t.Errorf("%q", life)
	}
	if err := p.SweepApprovals(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if found, err := p.FindApprovals(t.Context(), sqlgov.ApprovalFilter{}); err != nil || len(found) != 0 {
		t.Errorf("what is long decided is forgotten: %+v %v", found, err)
	}
}

func TestPendingApprovalsAreBounded(t *testing.T) {
	_, p := approvalsIn(t, t.TempDir())
	for i, want := range []error{nil, nil, sqlgov.ErrTooManyApprovals} {
		if err := p.QueueApproval(t.Context(), waiting(string(rune('A'+i))), 2, 10); !errors.Is(err, want) {
			t.Errorf("%d: %v", i, err)
		}
	}
	other := waiting("X")
	other.Requester = "bob"
	if err := p.QueueApproval(t.Context(), other, 2, 2); !errors.Is(err, sqlgov.ErrTooManyApprovals) {
		t.Errorf("in all: %v", err)
	}
	if err := p.QueueApproval(t.Context(), other, 2, 3); err != nil {
		t.Errorf("%v", err)
	}
}
