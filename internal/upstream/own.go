package upstream

import (
	"regexp"
	"strings"

	"interlock/sqlgov"
)

// The application_name of connections, by which a DBA can tell in pg_stat_activity and in the server's log whose they are.
const (
	appName  = "interlock"      // of a client that gave none
	poolName = "interlock pool" // of Run: statements of doors without sessions of their own, and what the gateway asks itself
	scanName = "interlock scan" // of ScanCatalog
)

// ApplicationOf is the application_name under which the server knows a caller's statements, who came by a door and has said the
// name given.
func ApplicationOf(door, name string) string {
	switch {
	case door != string(sqlgov.PGWire):
		return poolName
	case name == "":
		return appName
	}
	return name
}

// housekeeping is what Run puts around a statement.
var housekeeping = regexp.MustCompile(`^statement: (commit|rollback|discard all)$|^execute <unnamed>: (begin read write|set statement_timeout = \d+)$`)

// recheckHead and recheckTail are where a Recheck in front of a caller's Query begins and ends.
var (
	recheckHead    = sqlgov.RecheckSQL[:strings.IndexByte(sqlgov.RecheckSQL, '\n')]
	recheckTail    = sqlgov.RecheckSQL[strings.LastIndexByte(sqlgov.RecheckSQL, '\n'):] + ";\n"
	recheckLocking = `prepare "` + sqlgov.RecheckName
)

// CallersPart returns what of a statement in a server's log a caller has asked for. It is false for what was the gateway's own
// idea: a scan, a look for changes, the question if the catalog is still the one that a statement was judged by. entry is what
// follows "LOG:  ".
func CallersPart(application, entry string) (text string, ok bool) {
	if isOwn(application, entry) {
		return "", false
	}
	_, text, _ = strings.Cut(entry, ": ")
	if strings.HasPrefix(text, recheckHead) || strings.HasPrefix(text, recheckLocking) {
		_, text, _ = strings.Cut(text, recheckTail)
	}
	return text, true
}

func isOwn(application, entry string) bool {
	how, text, _ := strings.Cut(entry, ": ")
	switch {
	case application == scanName, text == fitSQL:
		return true
	case strings.HasPrefix(text, cleanSQL), strings.HasPrefix(text, replaySQL("pg_catalog.set_config(")), text == replaySQL(""), text == learnSQL, text == applicationSQL:
		return true
	case application == poolName && (text == stampSQL || housekeeping.MatchString(entry)):
		return true
	}
	return strings.HasPrefix(how, "execute "+sqlgov.RecheckName)
}
