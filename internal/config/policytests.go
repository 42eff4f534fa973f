package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"interlock/sqlgov/policy"
)

// PolicyTest is a request with the decision that is expected of a governance document.
type PolicyTest struct {
	Name        string
	Line        int
	Identity    string
	Source      string
	SQL         string
	Door        string
	Client      string // IP address
	Application string
	At          time.Time // zero: now
	Expect      policy.Verdict
	SQLState    string // "" expects nothing of it
	Rule        string // policy that must have been met, or source role that must have decided; "" expects nothing
}

// PolicyTestsOf is where the tests of a governance document are if nothing else is said: governance.tests.yaml beside
// governance.yaml.
func PolicyTestsOf(document string) string {
	ext := filepath.Ext(document)
	return strings.TrimSuffix(document, ext) + ".tests" + ext
}

// LoadPolicyTests reads a file with tests. If it can be read but is wrong, the error is of type Problems.
func LoadPolicyTests(path string) ([]PolicyTest, error) {
	data, _, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tests of policies: %w", err)
	}
	var tests []PolicyTest
	r := &reader{file: path, lookup: os.LookupEnv}
	r.document(data, policyTestsShape(&tests))
	if err := r.err(); err != nil {
		return nil, err
	}
	return tests, nil
}

func policyTestsShape(tests *[]PolicyTest) shape {
	return &object{
		about:    "Requests with the decisions that are expected of the governance document beside this file.",
		required: []string{"tests"},
		fields:   []field{{"tests", &list{about: "Tests.", some: true, item: func() shape { return policyTestShape(tests) }}}},
	}
}

func policyTestShape(tests *[]PolicyTest) shape {
	var t PolicyTest
	var expect string
	at := words(new(string), "", "When the request comes: 2026-01-31T10:00:00Z. Default: now.")
	at.set = func(text string) (err error) {
		if t.At, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("%q is no time; write it as in 2026-01-31T10:00:00Z", text)
		}
		return nil
	}
	at.preset = nil
	at.tags = append(at.tags, "!!timestamp")
	return &object{
		about:    "A request, and what must be decided.",
		required: []string{"identity", "source", "sql", "expect"},
		fields: []field{
			{"name", words(&t.Name, "", "What the test is about.")},
			{"identity", words(&t.Identity, "", "Who asks.")},
			{"source", words(&t.Source, "", "Id of the source.")},
			{"sql", words(&t.SQL, "", "The statement.")},
			{"door", choice(&t.Door, "pgwire", "How the request comes in.", "pgwire", "mcp")},
			{"client", words(&t.Client, "127.0.0.1", "IP address of the client.")},
			{"application", words(&t.Application, "", "Name of the client's application.")},
			{"at", at},
			{"expect", choice(&expect, "", "The verdict.", string(policy.Allowed), string(policy.Refused), string(policy.Held))},
			{"sqlstate", text(&t.SQLState, "", "SQLSTATE of the refusal.", `^[0-9A-Z]{5}$`, nil)},
			{"rule", words(&t.Rule, "", "Policy that must be met, or source role that must decide.")},
		},
		done: func(_ *reader, node func(string) *yaml.Node) {
			t.Line, t.Expect = node("").Line, policy.Verdict(expect)
			*tests = append(*tests, t)
		},
	}
}
