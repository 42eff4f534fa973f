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

// housekeeping is what Run puts around a statement.
var housekeeping = regexp.MustCompile(`^statement: (commit|rollback|discard all)$|^execute <unnamed>: (begin read write|set statement_timeout = \d+)$`)

// Own reports if a statement in a server's log was the gateway's own idea and not a caller's: a scan, a look for changes, the
// question if the catalog is still the one that a statement was judged by. entry is what follows "LOG:  ".
func Own(application, entry string) bool {
	how, text, _ := strings.Cut(entry, ": ")
	switch {
	case application == scanName, text == fitSQL:
		return true
	case application == poolName && (text == stampSQL || housekeeping.MatchString(entry)):
		return true
	}
	return strings.HasPrefix(how, "execute "+sqlgov.RecheckName)
}
