package catalog

import (
	"fmt"
	"slices"
	"strings"
)

// risk is what a predefined role lets its members do past the gateway's judgement, and what to do instead.
type risk struct{ role, can, instead string }

var risks = []risk{
	{"pg_read_all_data", "reads every table, whatever is granted", "grant SELECT on the governed tables"},
	{"pg_write_all_data", "changes every table, whatever is granted", "grant INSERT, UPDATE or DELETE on the tables that may change"},
	{"pg_read_server_files", "reads any file that the server can read", "revoke it"},
	{"pg_write_server_files", "writes any file that the server can write", "revoke it"},
	{"pg_execute_server_program", "runs programs on the server's machine", "revoke it"},
	{"pg_database_owner", "can change and drop what the database holds", "give the database to another role"},
	{"pg_monitor", "reads other sessions' statements and statistics, which hold data", "revoke it and monitor with another login"},
	{"pg_read_all_stats", "reads other sessions' statements and statistics, which hold data", "revoke it and monitor with another login"},
	{"pg_signal_backend", "can end other sessions", "revoke it"},
	{"pg_maintain", "can vacuum, reindex and lock every table", "revoke it"},
	{"pg_create_subscription", "can make the server connect to others", "revoke it"},
}

// Warnings says where the upstream login is more than the gateway needs, each with what to do instead. The gateway's own checks do not rest on
// the login being weak; they are the first line and the login's privileges the second. Empty is how it should be.
func (s *Snapshot) Warnings() []string {
	l := s.Login
	var out []string
	warn := func(when bool, format string, args ...any) {
		if when {
			out = append(out, fmt.Sprintf("upstream login %q ", l.Name)+fmt.Sprintf(format, args...))
		}
	}
	warn(l.Superuser, "is a superuser: PostgreSQL checks none of its privileges; use a login made with NOSUPERUSER and grants on the governed tables only")
	warn(l.BypassRLS, "has BYPASSRLS: row-level security policies do not apply to it; ALTER ROLE %s NOBYPASSRLS", quoteName(l.Name))
	warn(len(l.Elevated) > 0, "is a member of %s, superuser or BYPASSRLS: it can become that role; revoke the membership", nameList(l.Elevated))
	warn(l.CreateRole, "has CREATEROLE: it can make roles and memberships; ALTER ROLE %s NOCREATEROLE", quoteName(l.Name))
	warn(l.CreateDB, "has CREATEDB; ALTER ROLE %s NOCREATEDB", quoteName(l.Name))
	warn(l.Replication, "has REPLICATION: it can stream every change of every table; ALTER ROLE %s NOREPLICATION", quoteName(l.Name))
	warn(l.Owns > 0, "owns %d relations, itself or as a member of their owner: an owner can alter and drop them and is exempt from row-level security; use a login that owns nothing", l.Owns)
	for _, r := range risks {
		warn(slices.Contains(l.MemberOf, r.role), "is a member of %s: it %s; %s", r.role, r.can, r.instead)
	}
	return out
}

func nameList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quoteName(n)
	}
	return strings.Join(quoted, ", ")
}

// quoteName writes a name so that it can be pasted into SQL.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
