package sqlgov

import (
	"testing"
	"time"

	"interlock/sqlgov/analyze"
)

func TestStatementTimeoutCanOnlyBeShortened(t *testing.T) {
	for value, allowed := range map[string]bool{
		"1000": true, "30s": true, "30 s": true, "5min": true, "0.5min": true, "300000": true, "300001": false, "6min": false,
		"0": false, "-1": false, "1h": false, "1d": false, "": false, "soon": false, "10 parsecs": false, "NaN": false, "1e300": false,
	} {
		r := boundTimeout(analyze.Setting{Name: "statement_timeout", Value: value}, 5*time.Minute)
		if (r == nil) != allowed {
			t.Errorf("SET statement_timeout = %q: refusal %v, want allowed %v", value, r, allowed)
		}
	}
	if r := boundTimeout(analyze.Setting{Name: "statement_timeout", Default: true}, time.Minute); r != nil {
		t.Errorf("RESET statement_timeout is refused: %v", r)
	}
	if r := boundTimeout(analyze.Setting{Name: "lock_timeout", Value: "0"}, time.Minute); r != nil {
		t.Errorf("SET lock_timeout is refused: %v", r)
	}
}
