package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Bounds of a condition. An evaluation that costs more than maxCost (CEL's own units; comparing two short strings
// costs about 2) ends in an error, which denies. The cost of a condition without loops is bounded by its size.
const (
	maxConditionBytes = 4096
	maxConditionDepth = 50
	maxCost           = 50_000
)

// variables are what a condition can ask. Names of tables, columns and functions are written as in resource patterns:
// crm.customers.ssn, in double quotes where PostgreSQL needs them.
var variables = []struct {
	name string
	kind *cel.Type
}{
	{"identity.name", cel.StringType},
	{"identity.kind", cel.StringType},                                    // human, agent, service
	{"identity.team", cel.StringType},                                    // "" if the identity has none
	{"identity.attributes", cel.MapType(cel.StringType, cel.StringType)}, // as in the document; one that is absent is an error
	{"source", cel.StringType},                                           // id of the source
	{"door", cel.StringType},                                             // pgwire or mcp
	{"client.address", cel.StringType},                                   // IP address, without the port
	{"client.application", cel.StringType},                               // as the client says: never a proof
	{"now", cel.TimestampType},                                           // when the request came in
	{"ruleset", cel.IntType},                                             // number of the ruleset
	{"statement.kind", cel.StringType},                                   // select, insert, update, ...; see analyze.Statement.Does
	{"statement.command", cel.StringType},                                // as kind, but explain, prepare, execute for what carries another
	{"statement.write", cel.BoolType},                                    // changes or locks rows
	{"statement.where", cel.BoolType},                                    // false for an UPDATE or DELETE of all rows
	{"statement.table_rows", cel.IntType},                                // estimate for the largest table that is changed; -1 unknown, 0 if none is
	{"statement.risk", cel.StringType},                                   // none, low, medium, high; see Risk
	{"statement.tables", cel.ListType(cel.StringType)},                   // read, changed or locked
	{"statement.columns", cel.ListType(cel.StringType)},                  // read or changed, also behind views where they come out
	{"statement.writes", cel.ListType(cel.StringType)},                   // tables that are changed
	{"statement.functions", cel.ListType(cel.StringType)},                // schema.name; built-ins too
	{"statement.labels", cel.ListType(cel.StringType)},                   // of the columns
}

// dynamic are the variables that a decision on the same statement of the same identity can differ in.
var dynamic = []string{"client.address", "client.application", "now"}

// touching are the variables that tell what a statement touches. They have no value for a raw one.
var touching = []string{"statement.where", "statement.table_rows", "statement.tables", "statement.columns", "statement.writes",
	"statement.functions", "statement.labels"}

var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.HomogeneousAggregateLiterals(), cel.DefaultUTCTimeZone(true), cel.EagerlyValidateDeclarations(true),
		cel.ParserExpressionSizeLimit(maxConditionBytes), cel.ParserRecursionLimit(maxConditionDepth),
		cel.Function("inNetwork", cel.MemberOverload("string_in_network", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(inNetwork))),
	}
	for _, v := range variables {
		options = append(options, cel.Variable(v.name, v.kind))
	}
	return cel.NewEnv(options...)
})

// inNetwork reports if an IP address is in a network in CIDR notation.
func inNetwork(address, network ref.Val) ref.Val {
	a, err := netip.ParseAddr(string(address.(types.String)))
	if err != nil {
		return types.NewErr("%q is no IP address", address.Value())
	}
	n, err := netip.ParsePrefix(string(network.(types.String)))
	if err != nil {
		return types.NewErr("%q is no network in CIDR notation", network.Value())
	}
	return types.Bool(n.Contains(a.Unmap()))
}

// condition is a compiled condition. A nil program holds always.
type condition struct {
	program cel.Program
	// partial is program for when the dynamic variables are not known yet, or those of a raw statement never are; nil if the
	// condition asks none of them.
	partial cel.Program
	guards  []guard
	asks    []string // variables that it refers to
}

// compileCondition compiles and checks the text of a condition.
func compileCondition(text string) (*condition, error) {
	if strings.TrimSpace(text) == "" {
		return &condition{}, nil
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%s", firstIssue(issues))
	}
	if parsed.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("the condition is of type %s, not true or false", parsed.OutputType())
	}
	c := &condition{guards: guardsOf(parsed.NativeRep().Expr()), asks: asked(parsed.NativeRep())}
	var bound []cel.ProgramOption
	if loops(parsed.NativeRep()) {
		bound = append(bound, cel.CostLimit(maxCost))
	}
	if c.program, err = env.Program(parsed, append(bound, cel.EvalOptions(cel.OptOptimize))...); err != nil {
		return nil, err
	}
	if c.asksAny(dynamic) || c.asksAny(touching) {
		c.partial, err = env.Program(parsed, append(bound, cel.EvalOptions(cel.OptPartialEval))...)
	}
	return c, err
}

func (c *condition) asksAny(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(c.asks, name) })
}

// loops reports if a condition evaluates a part of itself for every item of a list.
func loops(parsed *ast.AST) bool {
	found := false
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) { found = found || e.Kind() == ast.ComprehensionKind }))
	return found
}

// firstIssue is the first complaint of the compiler, with its place in the condition where it is not at the start.
func firstIssue(issues *cel.Issues) string {
	e := issues.Errors()[0]
	text, _, _ := strings.Cut(e.Message, "\n")
	return fmt.Sprintf("%s (at line %d, column %d of the condition)", text, e.Location.Line(), e.Location.Column()+1)
}

// asked lists the variables that a condition refers to.
func asked(parsed *ast.AST) []string {
	var names []string
	for _, r := range parsed.ReferenceMap() {
		if r.Name != "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// guard is a necessary part of a condition that can be tested without evaluating it: the condition is false unless one of
// the values is the variable's, or among them.
type guard struct {
	of     dimension
	values []string
}

// guardsOf finds the guards among the operands of the outermost "and". When one of them is false the whole is false, even
// if another would have been an error.
func guardsOf(e ast.Expr) []guard {
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	if call.FunctionName() != operators.LogicalAnd {
		if g, ok := guardOf(e); ok {
			return []guard{g}
		}
		return nil
	}
	var all []guard
	for _, arg := range call.Args() {
		all = append(all, guardsOf(arg)...)
	}
	return all
}

// guardOf reads a == "x", a in ["x", "y"], "x" in list, and an "or" of these about the same variable.
func guardOf(e ast.Expr) (guard, bool) {
	if e.Kind() != ast.CallKind {
		return guard{}, false
	}
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals:
		g, ok := comparison(args[0], args[1])
		if !ok {
			g, ok = comparison(args[1], args[0])
		}
		return g, ok
	case operators.In:
		return membership(args[0], args[1])
	case operators.LogicalOr:
		return alternatives(args)
	}
	return guard{}, false
}

func comparison(variable, constant ast.Expr) (guard, bool) {
	of, ok := dimensionOf(variable, false)
	value, isText := constantText(constant)
	return guard{of, []string{value}}, ok && isText
}

func membership(element, list ast.Expr) (guard, bool) {
	if of, ok := dimensionOf(list, true); ok {
		value, isText := constantText(element)
		return guard{of, []string{value}}, isText
	}
	of, ok := dimensionOf(element, false)
	if !ok || list.Kind() != ast.ListKind {
		return guard{}, false
	}
	g := guard{of: of}
	for _, item := range list.AsList().Elements() {
		value, isText := constantText(item)
		if !isText {
			return guard{}, false
		}
		g.values = append(g.values, value)
	}
	return g, len(list.AsList().OptionalIndices()) == 0
}

// alternatives joins guards about one variable. If none holds, each operand is false and so is the whole.
func alternatives(args []ast.Expr) (joined guard, ok bool) {
	for i, arg := range args {
		g, ok := guardOf(arg)
		if !ok || i > 0 && g.of != joined.of {
			return guard{}, false
		}
		joined.of = g.of
		joined.values = append(joined.values, g.values...)
	}
	return joined, true
}

func constantText(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
