package analyze

import (
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// channel notes a channel; "" is one that is not known.
func (a *analysis) channel(name string, action ChannelAction) {
	if c := (Channel{name, action}); !slices.Contains(a.out.Channels, c) {
		a.out.Channels = append(a.out.Channels, c)
	}
}

// isNotify reports if a function sends to a channel that its first argument names.
func isNotify(f *catalog.Function) bool {
	return f != nil && f.Schema == "pg_catalog" && f.Name == "pg_notify"
}

// notifies is a call of pg_notify. What it sends leaves the session as what is written does. Only a literal says which channel it is; every
// other way to the function ends in use, which notes an unknown one.
func (a *analysis) notifies(n *pg.FuncCall, match typing.Match, args []value) value {
	for _, v := range args {
		a.flowsIntoWrite(v)
	}
	known := slices.Clone(a.out.Channels)
	v := a.called(match, args, n.Location)
	if name := n.Args[0].GetAConst().GetSval().GetSval(); name != "" {
		a.out.Channels = known
		a.channel(name, Notifying)
	}
	return v
}
