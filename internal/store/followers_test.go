package store

import (
	"testing"
	"time"
)

// A follower hears of what comes after it, in order, until it has confirmed it, and of one node at a time.
func TestFollowers(t *testing.T) {
	s, _ := approvalsIn(t, t.TempDir())
	act := func(id, name string) {
		t.Helper()
		if _, err := s.AddAct(t.Context(), Act{ID: id, At: time.Now(), Name: name, Attributes: map[string]string{"approval": id}}); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(node string, until time.Time) bool {
		t.Helper()
		mine, err := s.Follow(t.Context(), "f", node, until)
		if err != nil {
			t.Fatal(err)
		}
		return mine
	}
	act("before", "approval.queued")
	later := time.Now().Add(time.Hour)
	if !follow("one", later) || follow("two", later) || !follow("one", later) {
		t.Error("one node tells, until its time is over")
	}
	act("a", "approval.queued")
	act("other", "key.created")
	act("b", "approval.done")
	for _, want := range []string{"a", "b", ""} {
		acts, err := s.FollowedActs(t.Context(), "f", "approval.")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(acts) > 0 {
			got = acts[0].ID
			if err := s.ConfirmActs(t.Context(), "f", acts[0].Number); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !follow("one", time.Now().Add(-time.Second)) || !follow("two", later) {
		t.Error("another node takes over")
	}
}
