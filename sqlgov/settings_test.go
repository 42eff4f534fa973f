package sqlgov

import (
	"testing"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

func TestStatementTimeoutCanOnlyBeShortened(t *testing.T) {
	for value, allowed := range map[string]bool{
		"1000": true, "30s": true, "30 s": true, "5min": true, "0.5min": true, "300000": true, "300001": false, "6min": false,
		"0": true, "0.4": true, "-1": false, "1h": false, "1d": false, "": false, "soon": false, "10 parsecs": false, "NaN": false, "1e300": false,
	} {
		r := boundTimeout(analyze.Setting{Name: "statement_timeout", Value: value}, 5*time.Minute)
		if (r == nil) != allowed {
			t.Errorf("SET statement_timeout = %q: refusal %v, want allowed %v", value, r, allowed)
		}
	}
	for text, sent := range map[string]string{
		"SET statement_timeout = 0":                                                "SET statement_timeout TO DEFAULT",
		" set session statement_timeout to '0 min' ; select 1":                     " SET statement_timeout TO DEFAULT ; select 1",
		"set local statement_timeout = 0;set statement_timeout = '400us'":          "SET LOCAL statement_timeout TO DEFAULT;SET statement_timeout TO DEFAULT",
		"SET statement_timeout = 1; SET lock_timeout = 0; RESET statement_timeout": "SET statement_timeout = 1; SET lock_timeout = 0; RESET statement_timeout",
	} {
		facts, err := analyze.Analyze(text, analyze.Env{Catalog: catalog.NewIndex(&catalog.Snapshot{})})
		if err != nil {
			t.Fatal(err)
		}
		if got := lifted(text, facts); got != sent {
			t.Errorf("%s is sent as %s, want %s", text, got, sent)
		}
	}
	frame := []byte("P\x00\x00\x00\x11s\x00select 0\x00\x00\x00")
	if got := string(withText(frame, 7, "select 0", "select")); got != "P\x00\x00\x00\x0fs\x00select\x00\x00\x00" {
		t.Errorf("message %q", got)
	}
	if r := boundTimeout(analyze.Setting{Name: "statement_timeout", Default: true}, time.Minute); r != nil {
		t.Errorf("RESET statement_timeout is refused: %v", r)
	}
	if r := boundTimeout(analyze.Setting{Name: "lock_timeout", Value: "0"}, time.Minute); r != nil {
		t.Errorf("SET lock_timeout is refused: %v", r)
	}
}
