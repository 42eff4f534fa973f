package policy

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Risk is how much harm a statement can do, by what it does and not by what it is written like.
type Risk string

// The risks, the least first.
const (
	RiskNone   Risk = "none"   // nothing is changed
	RiskLow    Risk = "low"    // rows are added or locked
	RiskMedium Risk = "medium" // chosen rows are changed; sequences, locks, notifications and large objects
	RiskHigh   Risk = "high"   // all rows of a table are changed; a volatile function of the database, or a raw statement, which may do anything
)

// RiskOf judges a statement.
func RiskOf(s *analyze.Statement) Risk {
	risk := RiskNone
	if s.Kind == analyze.Raw {
		risk = RiskHigh
	}
	for i := range s.Writes {
		risk = risk.or(riskOfWrite(s, &s.Writes[i]))
	}
	for _, f := range s.Functions {
		risk = risk.or(riskOfFunction(f))
	}
	for _, c := range s.Channels {
		if c.Action == analyze.Notifying {
			risk = risk.or(RiskMedium)
		}
	}
	return risk
}

func (r Risk) or(other Risk) Risk {
	if other.rank() > r.rank() {
		return other
	}
	return r
}

func (r Risk) rank() int {
	switch r {
	case RiskNone:
		return 0
	case RiskLow:
		return 1
	case RiskMedium:
		return 2
	}
	return 3
}

func riskOfWrite(s *analyze.Statement, w *analyze.Write) Risk {
	switch {
	case w.Action == analyze.Inserting, s.Locks && w.Action == analyze.Updating && w.Column.Num == 0:
		return RiskLow
	case w.Action == analyze.Truncating, s.NoWhere:
		return RiskHigh
	}
	return RiskMedium
}

func riskOfFunction(f *catalog.Function) Risk {
	if catalog.IsSystemSchema(f.Schema) {
		switch Builtin(f) {
		case BuiltinSequence, BuiltinLock, BuiltinNotify, BuiltinLargeWrite, BuiltinTransaction, BuiltinSleep:
			return RiskMedium
		}
		return RiskNone
	}
	// PostgreSQL lets a function that is declared stable or immutable change nothing by SQL.
	if f.Volatility == "s" || f.Volatility == "i" {
		return RiskNone
	}
	return RiskHigh
}
