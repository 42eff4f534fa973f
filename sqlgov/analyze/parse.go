package analyze

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"

	pg "github.com/pganalyze/pg_query_go/v5"
	"github.com/pganalyze/pg_query_go/v5/parser"
	"golang.org/x/sync/semaphore"
)

// parseBytes is how much text may be in the parser at once: it takes some hundred bytes of memory a byte of text.
const parseBytes = 16 << 20

// parsing admits at most GOMAXPROCS texts to the parser, fewer when they are large.
var parsing = sync.OnceValue(func() *semaphore.Weighted { return semaphore.NewWeighted(parseBytes) })

// parse parses a text that passed the gate.
func parse(text string) ([]*pg.RawStmt, *Error) {
	weight := min(max(int64(len(text)), parseBytes/int64(runtime.GOMAXPROCS(0))), parseBytes)
	if err := parsing().Acquire(context.Background(), weight); err != nil {
		return nil, refuse("54000", "the parser is not available")
	}
	defer parsing().Release(weight)
	tree, err := pg.Parse(text)
	if err != nil {
		return nil, parseError(err, text)
	}
	return tree.Stmts, nil
}

// parseError gives the parser's complaint in PostgreSQL's words. The parser does not pass SQLSTATEs on.
func parseError(err error, text string) *Error {
	var syntax *parser.Error
	if !errors.As(err, &syntax) {
		// The protobuf decoder gives up on trees of 10,000 messages depth.
		return refuse("54001", "the statement nests too deeply")
	}
	e := refuse(stateOf(syntax.Message), "%s", syntax.Message)
	if syntax.Cursorpos > 0 && syntax.Cursorpos <= len(text)+1 {
		e.Position = syntax.Cursorpos
	}
	return e
}

// stateOf is the SQLSTATE of what the lexer and the grammar complain about; nearly all is 42601.
func stateOf(message string) string {
	switch {
	case strings.Contains(message, "memory exhausted"):
		return "54001"
	case strings.Contains(message, "not yet implemented"), strings.Contains(message, "not supported"), strings.Contains(message, "not implemented"):
		return "0A000"
	}
	return "42601"
}

// minStack is the thread stack that the gate's limits are made for, with room to spare.
const minStack = 2 << 20

// StackOK reports an error if threads of this process get too small a stack for the parser, which walks its tree by
// recursion in C and would kill the process. Threads get the soft limit, or 2 MiB when there is none.
func StackOK() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return fmt.Errorf("reading the stack limit: %w", err)
	}
	if limit.Cur < minStack {
		return fmt.Errorf("the stack limit is %d bytes, the SQL parser needs %d: raise it with ulimit -s", limit.Cur, minStack)
	}
	return nil
}
