package policy

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Verdict is the outcome of a decision.
type Verdict string

// The verdicts. Held writes come from policies.
const (
	Allowed Verdict = "allow"
	Refused Verdict = "refuse"
	Held    Verdict = "hold"
)

// Need is one thing that a statement requires: an action on a resource.
type Need struct {
	Action   Action      `json:"action"`
	Schema   string      `json:"schema"`
	Object   string      `json:"object"` // of a channel, as a pattern names it
	Column   string      `json:"column,omitempty"`
	Relation catalog.OID `json:"relation,omitempty"`
	Num      int16       `json:"num,omitempty"`
	Function catalog.OID `json:"function,omitempty"`
	// AnyColumn is set when one allowed column of the table is enough: a table read without any column.
	AnyColumn bool `json:"any_column,omitempty"`
}

// Reason is why a need was met or not: the permission that decided, or none; or a policy that was met.
type Reason struct {
	Need    Need   `json:"need,omitzero"`
	Granted bool   `json:"granted"`
	Effect  Effect `json:"effect,omitempty"`  // of the deciding permission; "" when none matched
	Role    string `json:"role,omitempty"`    // source role that holds it
	Pattern string `json:"pattern,omitempty"` // resource pattern as written
	Line    int    `json:"line,omitempty"`    // of the permission in the governance document
	Note    string `json:"note,omitempty"`    // for example "built-in function, reviewed as pure"
	// Mask is set when the reason is a mask on the column of Need, by the role, or by the policy that Note names. Granted is
	// false if the statement does with the column what the mask does not allow.
	Mask string `json:"mask,omitempty"`
	// Filtered is set when no permission is needed, because the statement is rewritten to see only what the identity may.
	Filtered bool `json:"filtered,omitempty"`
	// Policy is set when the reason is a policy that was met, and not a permission. Then there is no Need.
	Policy *Match `json:"policy,omitempty"`
}

// Decision is the outcome for one text, with every reason. It never short-circuits: all needs are judged.
type Decision struct {
	Verdict Verdict  `json:"verdict"`
	Roles   []string `json:"roles"`
	Reasons []Reason `json:"reasons"`
	// Denied lists the needs that no role meets, in the order of the text. Empty when the roles allow everything.
	Denied []Reason `json:"denied,omitempty"`
	// Message, Detail and Hint teach the caller; empty when allowed. They name only what the caller typed and what
	// the caller may use.
	Message string `json:"message,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Hint    string `json:"hint,omitempty"`
	// Position is a byte offset + 1 in the text, set when a decision passes an error of the analysis on.
	Position int `json:"position,omitempty"`
	// Remedies are the smallest changes of the governance document that would meet the denied needs. They are for
	// operators: they name what the caller may not see.
	Remedies []Remedy `json:"remedies,omitempty"`
	// SQLState is 42501, or 0A000 for a built-in that the gateway never runs.
	SQLState string `json:"sqlstate,omitempty"`
	// WithholdDetail is an obligation: errors of the server must lose their detail, because a table in the
	// statement has columns that the caller may not read.
	WithholdDetail bool `json:"withhold_detail,omitempty"`
	// WithholdAll is set beside it when a masked column is in scope: then the message of an error is replaced, too, unless it
	// cannot hold a value.
	WithholdAll bool `json:"withhold_all,omitempty"`
	// Obligations come from the policies that matched.
	Obligations Obligations `json:"obligations,omitzero"`

	pending []pendingPolicy // policies that depend on circumstances; see Ruleset.Settle
	against *objection
	exposed *maskObjection
}

// Input is what a decision depends on.
type Input struct {
	Identity string
	Source   string
	Door     string         // how the request came in; "" if no door is meant
	Facts    *analyze.Facts // not used by DecideError
	Catalog  *catalog.Index
	// Typed reports if the caller typed a name (see analyze.Typed). Nil means that nothing was typed, so that
	// messages name nothing.
	Typed func(name ...string) bool
	// Introspection says what of the system schemas needs no permission. Nil means nothing.
	Introspection Introspection
}

// Introspection tells which parts of the system schemas are shown to everyone, each identity seeing what its roles allow:
// whoever runs an allowed statement must have it rewritten so. A permission on them gives them as they are; a deny counts.
type Introspection interface {
	Relation(*catalog.Relation) bool
	Function(*catalog.Function) bool
}

// Remedy is one change of the governance document.
type Remedy struct {
	// Change is "allow": add a permission; "remove": take a deny away; or "except": make a policy not hold.
	Change   string `json:"change"`
	Role     string `json:"role,omitempty"`
	Action   Action `json:"action,omitempty"`
	Resource string `json:"resource,omitempty"`
	Line     int    `json:"line,omitempty"`   // of the deny to take away, or of the policy
	Policy   string `json:"policy,omitempty"` // to except from
}
