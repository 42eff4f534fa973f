package mcp_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// obligations are what the two contracts (MCP transport and tools, errors) oblige the endpoint to, by number, each with
// the tests that hold it. A proof is the name of a test of this package, "package.Test" of another one, or a file of
// conversations, which are replayed in every protocol version. What cannot be tested says why, after "none: ".
var obligations = []struct {
	number int
	what   string
	proofs string
}{
	{1, "POST /mcp speaks JSON-RPC 2.0", "protocol/envelope"},
	{2, "header 2026-07-28 selects the modern dialect", "protocol/versions protocol/mirrors"},
	{3, "headers of handshake versions select handshake", "protocol/versions protocol/lifecycle"},
	{4, "the dialect is chosen for each request", "TestGoverned"},
	{5, "server/discover advertises 2026-07-28", "protocol/lifecycle"},
	{6, "initialize needs no version header", "protocol/lifecycle"},
	{7, "without a version header a request is of 2025-03-26", "protocol/versions"},
	{8, "an unsupported version is -32022", "protocol/versions"},
	{9, "its data lists the four versions", "protocol/versions"},
	{10, "Content-Type is application/json", "protocol/transport"},
	{11, "Accept has both media types", "protocol/transport"},
	{12, "batches are refused", "protocol/envelope"},
	{13, "tools need a bearer key", "TestAuthorizedInEveryVersion"},
	{14, "a foreign Origin is refused", "protocol/transport FuzzHeaders"},
	{15, "a missing Origin is accepted", "protocol/lifecycle"},
	{16, "modern: Mcp-Method mirrors the method", "protocol/mirrors"},
	{17, "modern: Mcp-Name mirrors the tool", "protocol/mirrors"},
	{18, "modern: _meta names the version", "protocol/mirrors"},
	{19, "modern: _meta has the client's capabilities", "protocol/mirrors"},
	{20, "handshake needs no mirrors", "protocol/mirrors"},
	{21, "no session id is issued", "protocol/lifecycle"},
	{22, "no session id is needed", "protocol/lifecycle"},
	{23, "GET /mcp is 405", "protocol/transport"},
	{24, "DELETE /mcp is 405", "protocol/transport"},
	{25, "a reply can be one stream of events", "TestPreferredStream TestProgress"},
	{26, "closing the stream cancels the work", "TestClosingCancelsUpstream TestAbandoned"},
	{27, "there is no standing stream", "protocol/transport"},
	{28, "server/discover works in both dialects without a key", "protocol/lifecycle"},
	{29, "initialize works without a key", "protocol/lifecycle"},
	{30, "initialize answers the version asked for", "protocol/lifecycle"},
	{31, "initialize answers 2025-11-25 to an unknown version", "protocol/lifecycle"},
	{32, "only tools are advertised", "protocol/lifecycle"},
	{33, "resources/* and prompts/* are -32601", "protocol/lifecycle"},
	{34, "notifications/initialized is 202", "protocol/lifecycle"},
	{35, "ping is an empty object in handshake", "protocol/lifecycle"},
	{36, "notifications/cancelled is 202", "protocol/lifecycle TestCancelledNotification"},
	{37, "tools/list works without a key", "protocol/tools"},
	{38, "tools/call needs a key", "TestAuthorizedInEveryVersion"},
	{39, "results have resultType complete", "protocol/tools"},
	{40, "results have serverInfo in _meta", "protocol/tools"},
	{41, "the result of initialize has neither", "protocol/lifecycle"},
	{42, "the result of ping is {}", "protocol/lifecycle"},
	{43, "modern: initialize is -32601", "protocol/lifecycle"},
	{44, "modern: ping is -32601", "protocol/lifecycle"},
	{45, "authorization is evaluated at every call", "TestGoverned"},
	{46, "a queued write is no error", "TestOutcomes"},
	{47, "it has status, approval_id, approval_state and message", "TestOutcomes"},
	{48, "its text says not executed, do not send it again", "TestOutcomes"},
	{49, "the queue does not deduplicate", "TestOutcomes"},
	{50, "handshake: 401, 403 and 429 are results with a reason", "TestRefusals"},
	{51, "modern: they are errors with their HTTP status", "TestRefusals"},
	{52, "handshake: 503 and 404 are results with a reason", "TestRefusals TestOutcomes"},
	{53, "circuit open, disabled, TLS refused and unknown are told apart", "TestOutcomes gateway.TestUpstreamLost upstream.TestTLSModes"},
	{54, "modern: 503 is -32603, 404 is -32602, with the reason", "TestRefusals TestOutcomes"},
	{55, "any other failure is opaque", "TestRefusals"},
	{56, "content begins with a text", "protocol/tools TestPresent"},
	{57, "structured results are JSON in the text", "TestPresent governed/sources"},
	{58, "the six tools are published with their schemas", "TestCatalogue protocol/arguments"},
	{59, "interlock_query is governed and audited", "TestGoverned sqlgov.TestAttacks"},
	{60, "its text is an array of row objects", "TestPresent governed/statements"},
	{61, "it never runs on the control database", "TestReach"},
	{62, "interlock_list_sources is keyed by source id", "governed/sources"},
	{63, "it lists active sources with a grant", "governed/sources TestGoverned"},
	{64, "interlock_describe_access has roles, allow and deny by source", "governed/sources"},
	{65, "source_id narrows it", "governed/sources"},
	{66, "a source without a grant is left out", "governed/sources"},
	{67, "the evaluator is that of enforcement", "TestGoverned policy.TestAccessAgreesWithDecide"},
	{68, "what is allowed can still be refused by a policy", "TestPolicyMarks"},
	{69, "without an identity it is 403, without a key 401", "TestAccessWithoutIdentity"},
	{70, "resources say enforced, catalogued, scanned_at, truncated", "governed/sources"},
	{71, "tables have columns and all_columns", "governed/sources"},
	{72, "a table that a policy refuses is marked", "TestPolicyMarks"},
	{73, "only what may be read is named", "TestGoverned"},
	{74, "at most 200 tables are listed", "TestAccessIsBounded"},
	{75, "a source without a catalog says so", "TestOutcomes"},
	{76, "interlock_describe_source lists columns across schemas", "governed/sources"},
	{77, "it is limited to what may be described", "governed/sources TestDiscover"},
	{78, "interlock_discover has one source, all filters and a bounded limit", "TestDiscover TestDiscoverHidesWhatIsNotVisible"},
	{79, "interlock_related_documents stays in the source of its asset", "TestRelatedDocuments TestDiscoverHidesWhatIsNotVisible"},
	{80, "the steps come in their order", "sqlgov.TestPoliciesThroughBothDoors gateway.TestRateLimit"},
	{81, "a policy cannot grant", "policy.TestPoliciesOnlyTakeAway"},
	{82, "the codes are those of the table", "TestRefusals protocol/envelope protocol/versions protocol/mirrors"},
	{83, "the five agentgate_* names work", "TestCatalogue TestAuthorizedInEveryVersion"},
	{84, "the former routes work", "TestFormerRoutes"},
	{85, "/mcp/tools/call has approval_id and approval_state beside error", "TestOutcomes"},
	{86, "no upstream exception or address reaches an agent", "TestRefusals TestOutcomes"},
	{87, "literals are hidden in the log", "gateway.TestAuditTellsNoSecrets"},
	{88, "the correlation id finds the record", "TestOutcomes"},
	{89, "invalid input is 400 or 422 and -32600 or -32602", "TestRefusals protocol/arguments protocol/envelope"},
	{90, "authentication is 401", "TestRefusals TestAccessWithoutIdentity TestFormerRefusals"},
	{91, "a denial is 403", "TestRefusals TestFormerRefusals"},
	{92, "no address is called that a request names, so there is no egress_blocked: what would make the server call one is denied", "TestReach"},
	{93, "an approval is 202 and no error", "TestOutcomes"},
	{94, "a rate limit is 429", "TestRefusals TestFormerRefusals gateway.TestRateLimit"},
	{95, "bodies and results are bounded", "TestBodyLimits TestPresent TestRefusals"},
	{96, "an unknown source is 404", "TestOutcomes"},
	{97, "an unknown resource is 42501 on the wire", "policy.TestForbiddenAndMissingAnswerAlike"},
	{98, "an unavailable source is 503 on /mcp/tools/call", "TestOutcomes"},
	{99, "an upstream failure is 502, a statement's error keeps its SQLSTATE", "TestRefusals TestGoverned"},
	{100, "why an upstream cannot be opened is in the log only", "gateway.TestUpstreamLost TestRefusals"},
	{101, "a mandatory dependency that is down is 503", "TestOutcomes gateway.TestRedisLostByOperation"},
	{102, "what cannot be recorded is not run", "TestOutcomes"},
	{103, "a write that cannot be announced is 503 cache_consistency_unavailable and not run", "TestReach gateway.TestRedisLostBesideACache TestRefusals"},
	{104, "a read is not refused for that", "TestReach gateway.TestRedisLostBesideACache"},
	{105, "an unsupported feature is 0A000", "TestRefusals TestGoverned"},
	{106, "the published identifiers exist", "protocol/envelope TestBodyLimits TestIdentifiers"},
	{107, "what is denied or failed is on record", "TestGoverned TestRecordsNameTheCaller TestOutcomes TestAbandoned"},
	{108, "the gateway never repeats a write", "gateway.TestKilledGateway upstream.TestRunCommitLost"},
	{109, "an approval id is no idempotency key", "TestOutcomes"},
}

// directories are where the tests of other packages are.
var directories = map[string]string{"gateway": "../internal/gateway", "upstream": "../internal/upstream", "sqlgov": "../sqlgov", "policy": "../sqlgov/policy"}

// testsIn are the names of the tests in a directory.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	return found
}

// TestObligations: every obligation is there, and has a proof that exists or a reason why it has none.
func TestObligations(t *testing.T) {
	tests := map[string]map[string]bool{"": testsIn(t, ".")}
	for name, dir := range directories {
		tests[name] = testsIn(t, dir)
	}
	for i, o := range obligations {
		if o.number != i+1 {
			t.Fatalf("obligation %d comes at place %d", o.number, i+1)
		}
		if reason, none := strings.CutPrefix(o.proofs, "none: "); none && reason != "" {
			continue
		}
		for _, proof := range strings.Fields(o.proofs) {
			if strings.Contains(proof, "/") {
				if _, err := os.Stat("testdata/" + proof + ".txtar"); err != nil {
					t.Errorf("obligation %d: %v", o.number, err)
				}
				continue
			}
			pkg, name, qualified := strings.Cut(proof, ".")
			if !qualified {
				pkg, name = "", proof
			}
			if !tests[pkg][name] {
				t.Errorf("obligation %d: there is no test %s", o.number, proof)
			}
		}
	}
	if len(obligations) != 109 {
		t.Errorf("%d obligations", len(obligations))
	}
}
