package analyze

import (
	"slices"
	"strconv"
	"strings"

	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// setting is a parameter that a client may SET, with the values that it may have.
type setting struct {
	name   string   // as the server spells it
	values []string // lower case; nil means any
	why    string   // why it may be set
}

// settings is the reviewed list. What is not here cannot be set: most parameters change what a statement means, what it
// may cost, or who runs it.
var settings = index([]setting{
	{"application_name", nil, "names the client; it comes back to this client only"},
	{"bytea_output", []string{"hex", "escape"}, "shapes values on their way out"},
	{"client_encoding", []string{"utf8", "unicode", "utf-8"}, "the gateway reads UTF-8 only"},
	{"client_min_messages", nil, "asks for more or fewer notices"},
	{"DateStyle", nil, "shapes values on their way out"},
	{"default_transaction_deferrable", nil, "when a read-only transaction starts"},
	{"default_transaction_isolation", nil, "what a transaction sees"},
	{"default_transaction_read_only", nil, "the core keeps reads read-only in any case"},
	{"escape_string_warning", nil, "a warning only"},
	{"extra_float_digits", nil, "shapes values on their way out"},
	{"idle_in_transaction_session_timeout", nil, "the core caps it"},
	{"IntervalStyle", nil, "shapes values on their way out"},
	{"lock_timeout", nil, "the core caps it"},
	{"row_security", []string{"on", "true", "yes", "1"}, "off would turn policies into errors; on is what it is"},
	{"standard_conforming_strings", []string{"on", "true", "yes", "1"}, "off would change where literals end"},
	{"statement_timeout", nil, "the core caps it"},
	{"synchronize_seqscans", nil, "order of a scan only; pg_dump sets it"},
	{"TimeZone", nil, "shapes values"},
	{"transaction_deferrable", nil, "when a read-only transaction starts"},
	{"transaction_isolation", nil, "what a transaction sees"},
	{"transaction_read_only", nil, "the core keeps reads read-only in any case"},
	{"xmloption", []string{"content", "document"}, "how XML is read"},
})

// shown are further parameters that SHOW may print: they tell how to talk to the server, not what it holds.
var shown = index([]setting{
	{name: "DateStyle"}, {name: "default_transaction_read_only"}, {name: "in_hot_standby"}, {name: "integer_datetimes"},
	{name: "lc_collate"}, {name: "lc_ctype"}, {name: "lc_messages"}, {name: "lc_monetary"}, {name: "lc_numeric"}, {name: "lc_time"},
	{name: "max_identifier_length"}, {name: "max_index_keys"}, {name: "search_path"}, {name: "server_encoding"},
	{name: "server_version"}, {name: "server_version_num"}, {name: "is_superuser"}, {name: "transform_null_equals"},
	{name: "default_text_search_config"}, {name: "block_size"},
})

func index(list []setting) map[string]setting {
	byName := make(map[string]setting, len(list))
	for _, s := range list {
		byName[strings.ToLower(s.name)] = s
	}
	return byName
}

// hints say what to do instead of setting a parameter that is not in the list.
var hints = map[string]string{
	"search_path":           "Write the schema in front of the name, or have the source's search path changed.",
	"role":                  "The gateway connects as the identity's own role.",
	"session_authorization": "The gateway connects as the identity's own role.",
}

// set is SET, SET LOCAL, RESET and SET TRANSACTION.
func (a *analysis) set(n *pg.VariableSetStmt) {
	a.out.Kind = Set
	switch n.Kind {
	case pg.VariableSetKind_VAR_SET_VALUE, pg.VariableSetKind_VAR_SET_DEFAULT, pg.VariableSetKind_VAR_RESET:
		a.setOne(n)
	case pg.VariableSetKind_VAR_RESET_ALL:
		// What the gateway pins it pins at connection start, and RESET ALL returns to that.
		a.out.Name = "all"
	case pg.VariableSetKind_VAR_SET_MULTI:
		a.setTransaction(n)
	default:
		unsupported(-1, "this form of SET is")
	}
}

func (a *analysis) setOne(n *pg.VariableSetStmt) {
	if strings.EqualFold(n.Name, searchPath) && !n.IsLocal {
		switch {
		case n.Kind != pg.VariableSetKind_VAR_SET_VALUE:
			a.out.Name, a.out.Settings = searchPath, []Setting{{Name: searchPath, Default: true}}
			return
		case settingValue(n.Args) == "":
			a.emptyPath()
			return
		}
	}
	s, ok := settings[strings.ToLower(n.Name)]
	if !ok {
		e := refuse("0A000", "setting parameter %q is not supported by this gateway", n.Name)
		e.Hint = hints[strings.ToLower(n.Name)]
		fail(e)
	}
	a.out.Name = s.name
	if n.Kind != pg.VariableSetKind_VAR_SET_VALUE {
		a.out.Settings = append(a.out.Settings, Setting{Name: s.name, Default: true, Local: n.IsLocal})
		return
	}
	value := settingValue(n.Args)
	if s.values != nil && !slices.Contains(s.values, strings.ToLower(value)) {
		failAt(-1, "0A000", "parameter %q cannot be set to this value through this gateway", s.name)
	}
	a.out.Settings = append(a.out.Settings, Setting{Name: s.name, Value: value, Local: n.IsLocal})
}

// settingValue joins the values of SET as the server does.
func settingValue(args []*pg.Node) string {
	parts := make([]string, len(args))
	for i, arg := range args {
		parts[i] = literal(arg)
	}
	return strings.Join(parts, ", ")
}

// literal is the text of a constant in SET.
func literal(n *pg.Node) string {
	if cast := n.GetTypeCast(); cast != nil { // SET TIME ZONE INTERVAL '...'
		return literal(cast.Arg)
	}
	c := n.GetAConst()
	if c == nil {
		unsupported(location(n), "this value of SET is")
	}
	switch v := c.Val.(type) {
	case *pg.A_Const_Sval:
		return v.Sval.Sval
	case *pg.A_Const_Ival:
		return strconv.Itoa(int(v.Ival.Ival))
	case *pg.A_Const_Fval:
		return v.Fval.Fval
	case *pg.A_Const_Boolval:
		return strconv.FormatBool(v.Boolval.Boolval)
	}
	unsupported(c.Location, "this value of SET is")
	return ""
}

// setTransaction is SET TRANSACTION and SET SESSION CHARACTERISTICS AS TRANSACTION.
func (a *analysis) setTransaction(n *pg.VariableSetStmt) {
	switch n.Name {
	case "TRANSACTION", "SESSION CHARACTERISTICS":
		a.out.Name = strings.ToLower(n.Name)
		a.transactionModes(n.Args)
	default:
		unsupported(-1, "SET "+n.Name+" is")
	}
}

// transactionModes are isolation level, READ ONLY and DEFERRABLE.
func (a *analysis) transactionModes(list []*pg.Node) {
	for _, n := range list {
		d := n.GetDefElem()
		switch d.GetDefname() {
		case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
			a.out.Settings = append(a.out.Settings, Setting{Name: d.Defname, Value: literal(d.Arg)})
		default:
			unsupported(-1, "transaction mode "+d.GetDefname()+" is")
		}
	}
}

// show is SHOW of a parameter.
func (a *analysis) show(n *pg.VariableShowStmt) {
	name := strings.ToLower(n.Name)
	s, ok := settings[name]
	if !ok {
		s, ok = shown[name]
	}
	if !ok {
		failAt(-1, "0A000", "showing parameter %q is not supported by this gateway", n.Name)
	}
	a.out.Kind, a.out.Name = Show, s.name
	a.out.Output = []Output{{Name: s.name, Type: typing.Text}}
}
