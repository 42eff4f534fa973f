package audit

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// TestBriefs compares what a Brief reads without decoding with what a JSON parser reads.
func TestBriefs(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(Config{Dir: dir, HeadDir: t.TempDir()})
	must(t, err)
	odd := `say "\\" to a \"friend\", {[,]} ` + "\u2028\x01é"
	judgement := &Judgement{Ruleset: 3, Statement: odd, Fingerprint: "f1", Kinds: []string{"select"}, Reads: []string{`a."b]"".c`, `a.b.d`},
		Verdict: "allow", Reasons: json.RawMessage(`[{"effect":"allow","why":{"a":[1,2,{"b":"]}"}]}}]`)}
	unnumbered := &Judgement{Statement: odd, Verdict: "refuse"}
	records := []*Record{
		{Identity: odd, KeyID: "k", Door: "mcp", ClientAddr: "[::1]:80", Application: odd, Session: "S", Source: "shop",
			Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Sealed: "s1.x", Judgement: judgement},
		{Identity: "ana", Judgement: unnumbered},
		{},
	}
	refused := &Outcome{Status: Refused, SQLState: "42501", Rows: 3, Bytes: 4, Duration: time.Second, Refusal: &Refusal{Kind: "denied", Message: odd, Hint: "}"},
		Masks: []Masked{{Mask: "null", Columns: []string{"a.b.c"}}}}
	for _, rec := range records {
		rec.Time, rec.ID = time.Now(), NewID()
		must(t, l.Intent(t.Context(), rec))
		must(t, l.Outcome(t.Context(), &Outcome{ID: rec.ID, Time: time.Now(), Status: OK, Cache: CacheHit}))
		must(t, l.Request(t.Context(), rec, refused))
		must(t, l.Event(t.Context(), rec, &Event{Name: "witness.alarm", Attributes: map[string]string{"status": odd}}))
	}
	must(t, l.Close())
	var b Brief
	n := 0
	_, _, err = ReadAfter(dir, Cursor{}, 0, 1<<20, func(e *Entry) bool {
		n++
		compareBrief(t, &b, e)
		return true
	})
	must(t, err)
	if n < 4*len(records) {
		t.Errorf("%d entries", n)
	}
}

func compareBrief(t *testing.T, b *Brief, e *Entry) {
	t.Helper()
	must(t, b.Read(e))
	v, err := e.View()
	must(t, err)
	who, err := DecodeWho(b.Who)
	must(t, err)
	j, err := DecodeJudgement(b.Judgement)
	must(t, err)
	want := *b
	want.Status, want.Event, want.SQLState, want.Refusal, want.Rows, want.Nanos = v.Status, "", "", "", 0, 0
	want.Trace = []byte(v.Trace)
	if o := v.Outcome; o != nil {
		want.SQLState, want.Rows, want.Nanos = o.SQLState, o.Rows, int64(o.Duration)
		if o.Refusal != nil {
			want.Refusal = o.Refusal.Kind
		}
	}
	if v.Event != nil {
		want.Event = v.Event.Name
	}
	if string(b.Trace) != string(want.Trace) || b.Status != want.Status || b.SQLState != want.SQLState || b.Refusal != want.Refusal ||
		b.Rows != want.Rows || b.Nanos != want.Nanos || b.Event != want.Event {
		t.Errorf("%s\n%+v", e.Text, b)
	}
	if v.Judgement == nil {
		v.Judgement = &Judgement{}
	}
	if !reflect.DeepEqual(j, v.Judgement) {
		t.Errorf("%+v, want %+v", j, v.Judgement)
	}
	if w := (Record{Identity: v.Identity, KeyID: v.KeyID, Door: v.Door, ClientAddr: v.ClientAddr, Application: v.Application, Session: v.Session, Source: v.Source}); !reflect.DeepEqual(*who, w) {
		t.Errorf("%+v, want %+v", who, w)
	}
}

// TestBriefsOfForeignLayout reads members in another order than they are written in here.
func TestBriefsOfForeignLayout(t *testing.T) {
	var b Brief
	must(t, b.Read(&Entry{Type: TypeRequest, members: []byte(`,"verdict":"allow","identity":"ana","new":[1],"door":"mcp","trace":"t","source":"s","kinds":["select"]`)}))
	who, err := DecodeWho(b.Who)
	must(t, err)
	j, err := DecodeJudgement(b.Judgement)
	must(t, err)
	if who.Identity != "ana" || who.Door != "mcp" || who.Source != "s" || j.Verdict != "allow" || j.Kinds[0] != "select" || string(b.Trace) != "t" {
		t.Errorf("%+v %+v %s", who, j, b.Trace)
	}
	for _, cut := range []string{`,"identity":"ana`, `,"identity"`, `"identity":"ana"`, `,"outcome":{"status"`, `,"kinds":["select"`, `,"kinds":["sel\"]`, `,"outcome":"ok"`} {
		if err := b.Read(&Entry{Type: TypeRequest, members: []byte(cut)}); err == nil {
			t.Errorf("%s is read as %+v", cut, b)
		}
	}
}
