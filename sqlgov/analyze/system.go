package analyze

import (
	"slices"
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// System is what a statement asks of the system schemas, with the places in the text: what has to be known to put
// something else in the place of a reference. What stands behind a prepared name or a view is not in it.
type System struct {
	References  []Reference
	Calls       []SystemCall
	Conversions []Conversion
	// Raises is set when something besides a reported function can fail for some values and not for others: a conversion
	// through text, XML, a subquery in a condition that must have one row.
	Raises bool
}

// Reference is a place in FROM where a relation of the system schemas is read.
type Reference struct {
	Start, End int // bytes of the name in the text, with its schema; without ONLY, "*" and the alias
	Relation   *catalog.Relation
	Aliased    bool     // an alias is written
	Whole      bool     // its row is used as one value
	Hidden     []string // the system columns of it that are used
}

// SystemCall is a call of a watched function.
type SystemCall struct {
	Start    int // byte of the name; see CallExtent for the rest
	Function *catalog.Function
	Args     []Operand // by position in the call, without those that have defaults
	Named    bool      // arguments are given by name
}

// Operand is an argument of a call, or what a conversion turns into something else.
type Operand struct {
	Column  Column   // that it is, and nothing more; else zero
	Place   int      // 1 + the index of the reference that the column is read from; 0 if that is not known
	Literal *Literal // that it is; else nil
	Null    bool     // the literal NULL
	Type    catalog.OID
}

// Literal is a constant in the text.
type Literal struct {
	Start int // byte of it in the text
	Text  string
}

// Conversion turns a value into one of a type that stands for an object: regclass, regtype and their kin, also arrays
// of them.
type Conversion struct {
	Operand
	To    catalog.OID
	Start int // byte of the cast, or of what else wants the type; -1 unknown
}

// objectTypes are the types whose values stand for objects and are printed as their names, with their arrays.
var objectTypes = map[catalog.OID]bool{
	24: true, 2202: true, 2203: true, 2204: true, 2205: true, 2206: true, 3734: true, 3769: true, 4089: true, 4096: true, 4191: true,
	1008: true, 2207: true, 2208: true, 2209: true, 2210: true, 2211: true, 3735: true, 3770: true, 4090: true, 4097: true, 4192: true,
}

// refers notes a reference to a relation of the system schemas.
func (a *analysis) refers(m *mention, n *pg.RangeVar) {
	if !catalog.IsSystemSchema(m.rel.Schema) || a.foreign {
		return
	}
	r := Reference{Start: int(n.Location), Relation: m.rel, Aliased: n.Alias != nil}
	lex := lexer{text: a.text, pos: r.Start}
	for range 1 + 2*countSet(n.Catalogname, n.Schemaname) {
		r.End = lex.next().end
	}
	a.out.System.References = append(a.out.System.References, r)
	m.place = len(a.out.System.References)
}

func countSet(parts ...string) (n int) {
	for _, p := range parts {
		if p != "" {
			n++
		}
	}
	return n
}

func (a *analysis) refersToColumn(c *column) {
	if c.mention.place == 0 || c.origin.num >= 0 {
		return
	}
	r := &a.out.System.References[c.mention.place-1]
	if name := systemColumnName(c.origin.num); !slices.Contains(r.Hidden, name) {
		r.Hidden = append(r.Hidden, name)
	}
}

func (a *analysis) refersToRow(e *entry) {
	if e.place != nil && e.place.place > 0 {
		a.out.System.References[e.place.place-1].Whole = true
	}
}

// calls notes a call of a watched function.
func (a *analysis) calls(n *pg.FuncCall, match typing.Match, args []value) {
	f := match.Function
	if f == nil || a.foreign || a.env.Watched == nil || !catalog.IsSystemSchema(f.Schema) || !a.env.Watched(f) {
		return
	}
	call := SystemCall{Start: int(n.Location), Function: f, Args: make([]Operand, len(args))}
	for i := range args {
		call.Args[i] = operandOf(&args[i])
		call.Named = call.Named || i < len(n.Args) && n.Args[i].GetNamedArgExpr() != nil
	}
	a.out.System.Calls = append(a.out.System.Calls, call)
}

func operandOf(v *value) Operand {
	o := Operand{Literal: v.literal, Null: v.null, Type: v.typ}
	if v.plain && v.origin.rel != nil {
		o.Column = v.origin.column()
	}
	if v.mention != nil {
		o.Place = v.mention.place
	}
	return o
}

// turns notes what a conversion does that its functions do not tell.
func (a *analysis) turns(v value, to catalog.OID, c typing.Coercion, location int32) {
	if a.foreign {
		return
	}
	base := a.types.Base(to)
	if objectTypes[base] && !v.null && !objectTypes[a.types.Base(v.typ)] {
		a.out.System.Conversions = append(a.out.System.Conversions, Conversion{Operand: operandOf(&v), To: base, Start: int(location)})
	}
	if t := a.env.Catalog.Type(base); c.ViaIO && (t == nil || t.Category != "S") {
		a.out.System.Raises = true
	}
}

// binds notes what the server does with the text of a parameter of a type: it finds the object by its name. location is -1
// for a type that the client declared.
func (a *analysis) binds(t catalog.OID, location int32) {
	base := a.types.Base(t)
	if !objectTypes[base] {
		return
	}
	c, err := a.types.Coerce(typing.Unknown, base, typing.Implicit)
	must(err, location)
	a.converts(c)
	if !a.foreign {
		a.out.System.Conversions = append(a.out.System.Conversions, Conversion{Operand: Operand{Type: typing.Unknown}, To: base, Start: int(location)})
	}
}

// condition is a clause that decides about rows.
func (a *analysis) condition(s *scope, n *pg.Node, context string) {
	a.conditions++
	a.boolean(a.expr(s, n), context, location(n))
	a.conditions--
}

// constant is a literal, which remembers its place.
func (a *analysis) constant(n *pg.A_Const) value {
	v := constantValue(n)
	v.weight = 1
	if !n.Isnull && !a.foreign {
		v.literal = &Literal{Start: int(n.Location), Text: literalText(n)}
	}
	return v
}

func literalText(n *pg.A_Const) string {
	switch x := n.Val.(type) {
	case *pg.A_Const_Sval:
		return x.Sval.GetSval()
	case *pg.A_Const_Ival:
		return strconv.Itoa(int(x.Ival.GetIval()))
	case *pg.A_Const_Fval:
		return x.Fval.GetFval()
	}
	return ""
}

// Extent is a range of bytes of a text.
type Extent struct{ Start, End int }

// CallExtent finds the call that begins at a byte of a text: where it ends, behind its closing parenthesis, and where
// each of its arguments stands. ok is false for a call that is more than a name with arguments: ORDER BY, DISTINCT or
// VARIADIC inside, FILTER or OVER behind.
func CallExtent(text string, start int) (end int, args []Extent, ok bool) {
	lex := lexer{text: text, pos: start}
	t := lex.next()
	for t.class == word || t.class == quotedWord || text[t.start:t.end] == "." {
		t = lex.next()
	}
	if t.class != punctuation || text[t.start:t.end] != "(" {
		return 0, nil, false
	}
	arg, depth := Extent{-1, -1}, 1
	for depth > 0 {
		t = lex.next()
		if t.class == endOfText {
			return 0, nil, false
		}
		mark := ""
		if t.class == punctuation {
			mark = text[t.start:t.end]
		}
		switch mark {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		}
		if depth == 0 || depth == 1 && mark == "," {
			if arg.Start >= 0 {
				args = append(args, arg)
			}
			arg = Extent{-1, -1}
			continue
		}
		if arg.Start < 0 {
			arg.Start = t.start
		}
		arg.End = t.end
		if depth == 1 && t.class == word && splitsCall[lowerASCII(text[t.start:t.end])] {
			return 0, nil, false
		}
	}
	end = t.end
	if t = lex.next(); t.class == word && followsCall[lowerASCII(text[t.start:t.end])] {
		return 0, nil, false
	}
	return end, args, true
}

var (
	splitsCall  = map[string]bool{"order": true, "distinct": true, "variadic": true, "all": true}
	followsCall = map[string]bool{"filter": true, "over": true, "within": true}
)
