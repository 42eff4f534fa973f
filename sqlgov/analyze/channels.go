package analyze

import (
	"slices"
	"strings"

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

// keeps reports if what a function is given leaves the session as what is written does: it is sent to a channel, or it comes into a
// large object or makes the number of one.
func keeps(f *catalog.Function) bool {
	return isNotify(f) || f != nil && f.Schema == "pg_catalog" && (strings.HasPrefix(f.Name, "lo_") || f.Name == "lowrite")
}

// notifies is a call of pg_notify. Only a literal says which channel it is; every
// other way to the function ends in use, which notes an unknown one.
func (a *analysis) notifies(n *pg.FuncCall, match typing.Match, args []value) value {
	known := slices.Clone(a.out.Channels)
	v := a.called(match, args, n.Location)
	if name := n.Args[0].GetAConst().GetSval().GetSval(); name != "" {
		a.out.Channels = known
		a.channel(name, Notifying)
	}
	return v
}
