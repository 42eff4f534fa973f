package interlock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// defects are what went wrong in a gateway of this kind before, by number, with the tests by which it would show here: the
// directory of a package and the name of a test. What cannot go wrong here says why, after "none: ".
var defects = []struct {
	number int
	what   string
	proofs string
}{
	{1, "only the first statement of a simple query was governed", "pgwire.TestGoverned sqlgov.TestAttacks sqlgov/policy.TestEveryStatementOfAText"},
	{2, "set_config and table_to_xml passed as reads", "sqlgov/policy.TestAttacksMeetBuiltins sqlgov.TestAttacks"},
	{3, "a deny of a column was accepted and never counted", "sqlgov/policy.TestDecideVerdicts sqlgov/policy.TestAttackCases sqlgov.TestAttacks"},
	{4, "a deny of orders missed public.orders", "sqlgov/analyze.TestServerAgrees sqlgov/policy.TestAttackCases sqlgov.TestAttacks"},
	{5, "a disabled source was answered from the cache", "internal/gateway.TestResultsAreKept internal/gateway.TestDisabledSourceEndsSessions"},
	{6, "one door ignored what a source says of its cache", "none: there is one cache, and it stands in the core behind the doors; imports_test.go"},
	{7, "a role of another source could be changed by its id", "none: roles are in the governance document, each within its source, and nothing else changes them"},
	{8, "an unknown key was ignored, so a grant was too wide", "internal/config.TestGovernanceProblems internal/config.TestConfigProblems"},
	{9, "the doors judged the server's certificate in two ways", "internal/gateway.TestBothDoorsVerifyTheServer"},
	{10, "the authorities to trust never reached the handshake", "internal/gateway.TestBothDoorsVerifyTheServer internal/upstream.TestTLSModes"},
	{11, "a queued write was a result without content", "mcp.TestOutcomes"},
	{12, "clients that begin with initialize could not connect", "mcp.TestProtocol"},
	{13, "a missing argument was reported as a refusal by roles", "mcp.TestProtocol"},
	{14, "an approved write with an untyped jsonb parameter failed and was shown as done", "sqlgov.TestHeldWriteIsApprovedAndRun sqlgov.TestHeldWriteThatFails"},
	{15, "jsonb was encoded twice", "mcp.TestValuesOfPostgreSQL"},
	{16, "statistics of personal data were always empty", "sqlgov.TestContentIsMaskedAtEachDoor"},
	{17, "the dry run explained decisions that the gateway would not make", "sqlgov.TestExplainedAsEnforced sqlgov/policy.TestAccessAgreesWithDecide"},
	{18, `the text "false" switched something on`, "internal/config.TestConfigProblems internal/config.TestPoliciesThatAreWrong"},
	{19, "one part told of writes under another name than the others looked for", "internal/gateway.TestTwoNodesServeNothingStale internal/gateway.TestResultsAreKept"},
}

// TestDefects: every defect is there, and has a test that exists or a reason why it needs none.
func TestDefects(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, line := range strings.Split(string(text), "\n") {
			if name, _, ok := strings.Cut(strings.TrimPrefix(line, "func "), "(t *testing.T)"); ok && strings.HasPrefix(line, "func Test") {
				tests[filepath.ToSlash(filepath.Dir(path))+"."+name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range defects {
		if d.number != i+1 {
			t.Errorf("defect %d comes at place %d", d.number, i+1)
		}
		if strings.HasPrefix(d.proofs, "none: ") {
			continue
		}
		for _, proof := range strings.Fields(d.proofs) {
			if !tests[proof] {
				t.Errorf("defect %d, %s: there is no test %s", d.number, d.what, proof)
			}
		}
	}
	if len(defects) != 19 {
		t.Errorf("%d defects", len(defects))
	}
}
