package policy

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"interlock/catalog"
)

// BuiltinClass is what a function of the system schemas can do, as a person judged it. Volatility is no substitute:
// table_to_xml is stable and reads any table.
type BuiltinClass string

// The classes that everyone may call.
const (
	BuiltinPure     BuiltinClass = "pure"          // its result depends on its arguments and the session's settings only
	BuiltinVolatile BuiltinClass = "volatile_pure" // the clock, chance: nothing is read and nothing is left behind
	BuiltinSession  BuiltinClass = "session_read"  // tells what the caller's own session is: now(), current_user, version()
)

// The classes that need db.function.execute on the function by name.
const (
	BuiltinCatalog     BuiltinClass = "catalog_read" // names, definitions, sizes or existence of objects and roles
	BuiltinSetting     BuiltinClass = "setting_read" // configuration, also values that a session left there
	BuiltinServer      BuiltinClass = "server_info"  // addresses, paths, WAL position of the server
	BuiltinTransaction BuiltinClass = "transaction"  // transaction numbers; some assign one
	BuiltinSequence    BuiltinClass = "sequence"     // reads or advances a sequence that an argument names
	BuiltinLock        BuiltinClass = "lock"         // advisory locks: they outlive the statement, others can watch them
	BuiltinSleep       BuiltinClass = "sleep"
	BuiltinNotify      BuiltinClass = "notify" // sends an argument to other sessions
)

// The classes that need an action of their own; see largeObjectActions.
const (
	BuiltinLargeRead  BuiltinClass = "large_object_read"
	BuiltinLargeWrite BuiltinClass = "large_object_write"
	BuiltinLargeOpen  BuiltinClass = "large_object_open" // opens, closes and positions: of no use without one of the others
)

// The classes that never run through the gateway.
const (
	BuiltinSQLText    BuiltinClass = "sql_text"      // runs a text, or reads a table that an argument names
	BuiltinState      BuiltinClass = "session_state" // changes settings, the random seed, or exports the snapshot
	BuiltinFile       BuiltinClass = "file"          // reads, writes or lists files of the server
	BuiltinAdmin      BuiltinClass = "admin"         // signals, replication, backup, WAL, maintenance, pg_upgrade
	BuiltinStatistics BuiltinClass = "statistics"    // counters, and values that were sampled from columns
	BuiltinDiagnostic BuiltinClass = "diagnostic"    // what other sessions do, statements included; memory, locks
	BuiltinInternal   BuiltinClass = "internal"      // for the server's own use: input and output, triggers, index support
	BuiltinUnreviewed BuiltinClass = "unreviewed"    // nobody has judged it yet
	BuiltinUnknown    BuiltinClass = ""              // not in the table
)

// builtinLevels says what each class needs. A class that is missing here never runs.
var builtinLevels = map[BuiltinClass]level{
	BuiltinPure: levelFree, BuiltinVolatile: levelFree, BuiltinSession: levelFree,
	BuiltinCatalog: levelNamed, BuiltinSetting: levelNamed, BuiltinServer: levelNamed, BuiltinTransaction: levelNamed,
	BuiltinSequence: levelNamed, BuiltinLock: levelNamed, BuiltinSleep: levelNamed, BuiltinNotify: levelNamed,
	BuiltinSQLText: levelNever, BuiltinState: levelNever, BuiltinFile: levelNever,
	BuiltinLargeRead: levelGranted, BuiltinLargeWrite: levelGranted, BuiltinLargeOpen: levelGranted,
	BuiltinAdmin: levelNever, BuiltinStatistics: levelNever, BuiltinDiagnostic: levelNever, BuiltinInternal: levelNever,
	BuiltinUnreviewed: levelNever,
}

// Builtin returns the reviewed class of a function of the system schemas. A function that is not in the table, or that
// is not the one which was reviewed under its OID, is BuiltinUnknown.
func Builtin(f *catalog.Function) BuiltinClass {
	b, ok := builtins().byOID[f.OID]
	if !ok && !fixedOID(f.OID) && f.OID < firstUserOID {
		b, ok = builtins().byIdentity[identity(f)]
	}
	if !ok || b.identity != identity(f) {
		return BuiltinUnknown
	}
	return b.class
}

// OIDs below 10000 are written in PostgreSQL's source and never change (src/include/access/transam.h); those from there
// up to firstUserOID are given out when a server is built or a cluster is made.
const firstUserOID = 16384

func fixedOID(oid catalog.OID) bool { return oid < 10000 }

func identity(f *catalog.Function) string {
	return f.Schema + "." + f.Name + "(" + f.Signature + ")"
}

// builtin is one line of builtins.tsv.
type builtin struct {
	oid      catalog.OID // 0 if it is not the same on every server
	class    BuiltinClass
	identity string // schema.name(argument types)
}

type builtinTable struct {
	byOID      map[catalog.OID]builtin
	byIdentity map[string]builtin
}

//go:embed builtins.tsv
var builtinText string

var builtins = sync.OnceValue(func() *builtinTable {
	t, err := parseBuiltins(builtinText)
	if err != nil {
		panic("policy: " + err.Error()) // the text is part of the program, and a test reads it
	}
	return t
})

func parseBuiltins(text string) (*builtinTable, error) {
	t := &builtinTable{byOID: make(map[catalog.OID]builtin), byIdentity: make(map[string]builtin)}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		b, err := parseBuiltin(line)
		if err == nil {
			err = t.add(b)
		}
		if err != nil {
			return nil, fmt.Errorf("builtins.tsv:%d: %w", n, err)
		}
	}
	return t, nil
}

func parseBuiltin(line string) (builtin, error) {
	cells := strings.Split(line, "\t")
	if len(cells) != 3 {
		return builtin{}, fmt.Errorf("%d cells, want 3", len(cells))
	}
	b := builtin{class: BuiltinClass(cells[1]), identity: cells[2]}
	if _, ok := builtinLevels[b.class]; !ok {
		return b, fmt.Errorf("unknown class %q", b.class)
	}
	if cells[0] == "-" {
		return b, nil
	}
	oid, err := strconv.ParseUint(cells[0], 10, 32)
	if err != nil || oid == 0 || !fixedOID(catalog.OID(oid)) {
		return b, fmt.Errorf("bad OID %q", cells[0])
	}
	b.oid = catalog.OID(oid)
	return b, nil
}

func (t *builtinTable) add(b builtin) error {
	if _, twice := t.byIdentity[b.identity]; twice {
		return fmt.Errorf("%s is listed twice", b.identity)
	}
	if _, twice := t.byOID[b.oid]; twice {
		return fmt.Errorf("OID %d is listed twice", b.oid)
	}
	t.byIdentity[b.identity] = b
	if b.oid != 0 {
		t.byOID[b.oid] = b
	}
	return nil
}
