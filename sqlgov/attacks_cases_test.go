package sqlgov_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"interlock/internal/pgtest"
)

// attack is one case: a text, or several steps of one session, the verdict under the policy of
// testdata/attacks/governance.yaml, and what a server without a guard shows.
type attack struct {
	ID       string
	Family   string
	Grants   string
	SQL      steps
	Expected string // allow, deny, mask, approval, unsupported, limit or reject
	SQLState string
	Reason   string
	Control  string
	Proof    string
	Verified struct{ SQLStates []string }
}

type steps []step

// step is one thing that a client does. A text alone is a step that only has Q.
type step struct {
	Q        string
	P        []string
	C        string            // "b": another session does it, which is not governed
	Prep     string            // prepare Q under this name
	Exec     string            // run the prepared statement
	Close    string            // close the prepared statement
	Fastpath string            // call a function by a FunctionCall message
	Args     []string          // its arguments
	Startup  map[string]string // run Q on a new connection with these parameters
	Pipeline []string          // statements between two Syncs
	Raw      string            // Q as hex digits of bytes
	Gen      string            // Q is generated: plus, comment, paren or inlist
	N        int
}

func (s *steps) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		return json.Unmarshal(b, (*[]step)(s))
	}
	*s = make(steps, 1)
	return json.Unmarshal(b, &(*s)[0])
}

func (s *step) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte(`"`)) {
		return json.Unmarshal(b, &s.Q)
	}
	type plain step
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode((*plain)(s)); err != nil {
		return err
	}
	return s.expand()
}

func (s *step) expand() error {
	switch s.Gen {
	case "":
	case "plus":
		s.Q = "SELECT 1" + strings.Repeat("+1", s.N)
	case "comment":
		s.Q = "SELECT 1 " + strings.Repeat("/*", s.N) + strings.Repeat("*/", s.N)
	case "paren":
		s.Q = "SELECT " + strings.Repeat("(", s.N) + "1" + strings.Repeat(")", s.N)
	case "inlist":
		var b strings.Builder
		for i := range s.N {
			fmt.Fprintf(&b, ",%d", i)
		}
		s.Q = "SELECT id FROM app.orders WHERE id IN (" + b.String()[1:] + ")"
	default:
		return fmt.Errorf("unknown generator %q", s.Gen)
	}
	if s.Raw != "" {
		b, err := hex.DecodeString(s.Raw)
		s.Q = string(b)
		return err
	}
	return nil
}

// filled returns the steps with the name of the database and the server's port in place.
func (c *attack) filled(database string, port int) []step {
	fill := strings.NewReplacer("{db}", database, "port=55471", "port="+strconv.Itoa(port)).Replace
	all := slices.Clone(c.SQL)
	for i := range all {
		all[i].Q = fill(all[i].Q)
	}
	return all
}

// inlined is a step's text with its parameters as literals, for doors that have no parameters.
func (s *step) inlined() string {
	q := s.Q
	for i := len(s.P); i > 0; i-- {
		q = strings.ReplaceAll(q, "$"+strconv.Itoa(i), "'"+strings.ReplaceAll(s.P[i-1], "'", "''")+"'")
	}
	return q
}

// typed is all that the client of a case writes: hearing it back is no leak.
func (c *attack) typed() string {
	b, err := json.Marshal(c.SQL)
	if err != nil {
		panic(err)
	}
	var all strings.Builder
	for _, s := range c.SQL {
		all.WriteString(strings.Join(append(s.P, s.Q, strings.Join(s.Args, " "), strings.Join(s.Pipeline, " ")), " ") + " ")
	}
	return all.String() + string(b)
}

// disturbs reports if another session takes part, which changes the database behind the gateway's back.
func (c *attack) disturbs() bool {
	return slices.ContainsFunc(c.SQL, func(s step) bool { return s.C != "" })
}

// calls is the case as calls of interlock_query; nil if it is about messages of the other protocol. A pair of
// statements is two calls, since a call is one statement.
func (c *attack) calls() *attack {
	split := *c
	split.SQL = nil
	for _, s := range c.SQL {
		if s.Fastpath != "" || s.Startup != nil {
			return nil
		}
		if !strings.HasPrefix(c.ID, "APPR-") || strings.Contains(s.Q, "$$") {
			split.SQL = append(split.SQL, s)
			continue
		}
		for q := range strings.SplitSeq(s.Q, "; ") {
			split.SQL = append(split.SQL, step{Q: q})
		}
	}
	return &split
}

func (c *attack) identity() string {
	if strings.Contains(c.Grants, "safe_len") {
		return "analyst_and_caller"
	}
	return "analyst"
}

// attacks returns the cases of all files.
func attacks(t *testing.T) []*attack {
	t.Helper()
	var all []*attack
	for _, name := range []string{"cases.jsonl", "more.jsonl"} {
		for dec := json.NewDecoder(bytes.NewReader(attackFile(t, name))); dec.More(); {
			c := new(attack)
			if err := dec.Decode(c); err != nil {
				t.Fatalf("%s, after %d cases: %v", name, len(all), err)
			}
			all = append(all, c)
		}
	}
	return all
}

func attackFile(t *testing.T, name string) []byte {
	t.Helper()
	path, err := pgtest.File("testdata/attacks/" + name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
