package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// Both doors judge the server's certificate alike: by the authorities that the source names, or not at all.
func TestBothDoorsVerifyTheServer(t *testing.T) {
	srv := pgtest.Start(t)
	foreign, _, _, err := pgtest.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ours, other := filepath.Join(dir, "ours.crt"), filepath.Join(dir, "other.crt")
	for file, text := range map[string][]byte{ours: srv.CA(), other: foreign} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	document := strings.Replace(limited("connections: 50", ""), "tls: disable", "tls: verify-full, ca: "+ours, 1)
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: table, Governance: document})
	both := func() (mcp, wire said) {
		_, wire = connect(t, g.DSN("ana", "shop"))
		return call(t, g.MCP, g.Key("ana"), "select i from t"), wire
	}
	if mcp, wire := both(); mcp.state != "" || wire.state != "" {
		t.Errorf("a certificate of the authority: %+v %+v", mcp, wire)
	}
	g.Apply(strings.Replace(document, ours, other, 1))
	if mcp, wire := both(); mcp.state != "08004" || wire.state != "08004" || !strings.Contains(mcp.message+wire.message, "could not be verified by TLS") {
		t.Errorf("a certificate of another authority: %+v %+v", mcp, wire)
	}
	g.Apply(document)
	if mcp, wire := both(); mcp.state != "" || wire.state != "" {
		t.Errorf("afterwards: %+v %+v", mcp, wire)
	}
}
