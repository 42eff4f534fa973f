package pgwire

import (
	"errors"
	"regexp"
	"testing"

	"interlock/sqlgov"
)

func TestEveryKindHasState(t *testing.T) {
	form := regexp.MustCompile(`^[0-9A-Z]{5}$`)
	for _, k := range sqlgov.Kinds() {
		if s := sqlStates[k]; !form.MatchString(s) {
			t.Errorf("kind %d has SQLSTATE %q", k, s)
		}
	}
	if len(sqlStates) != len(sqlgov.Kinds()) {
		t.Errorf("%d states for %d kinds", len(sqlStates), len(sqlgov.Kinds()))
	}
}

func TestErrorResponse(t *testing.T) {
	m := errorResponse(severityError, &sqlgov.Refusal{
		Kind: sqlgov.Denied, Message: `permission denied for column "ssn" of table "crm.customers"`,
		Detail: "Your roles allow less.", Hint: `Remove "ssn" or ask your administrator for it.`, Position: 8, DecisionID: "01K1",
		Err: errors.New("secret"),
	})
	if m.Severity != "ERROR" || m.SeverityUnlocalized != "ERROR" || m.Code != "42501" || m.Position != 8 {
		t.Errorf("%+v", m)
	}
	if want := `Remove "ssn" or ask your administrator for it. Decision 01K1`; m.Hint != want {
		t.Errorf("hint %q, want %q", m.Hint, want)
	}
	if again := withDecision(m.Hint, "01K1"); again != m.Hint {
		t.Errorf("the decision is named twice: %q", again)
	}
}

func TestForeignErrorSaysNothing(t *testing.T) {
	m := errorResponse(severityFatal, asRefusal(errors.New("dial tcp 10.0.0.7:5432: secret")))
	if m.Code != "XX000" || m.Message != "internal error of the gateway" || m.Detail+m.Hint != "" {
		t.Errorf("%+v", m)
	}
}

func TestNulDoesNotEndAField(t *testing.T) {
	m := errorResponse(severityError, &sqlgov.Refusal{Message: "a\x00b"})
	if m.Message != `a\0b` {
		t.Errorf("%q", m.Message)
	}
}
