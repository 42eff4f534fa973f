package mcp_test

import (
	"net/http/httptest"
	"testing"

	"interlock/sqlgov"
)

// TestProtocol replays what the door settles by itself: framing, headers, versions, lifecycle and arguments.
func TestProtocol(t *testing.T) {
	server, core := newScripted()
	server.AllowedOrigins = []string{"https://chat.example"}
	server.AllowedHosts = []string{"gateway.example"}
	core.refusals["select ssn from crm.customers"] = &sqlgov.Refusal{
		Kind:       sqlgov.Denied,
		SQLState:   "42501",
		Message:    `permission denied for column "ssn" of table "crm.customers"`,
		Detail:     `Your roles on source "shop" (analyst) allow select on crm.customers (id, name, region).`,
		Hint:       `Remove "ssn" or ask your administrator for it.`,
		DecisionID: decision,
	}
	core.refusals["nowhere"] = unknownSource()
	endpoint := httptest.NewServer(server)
	defer endpoint.Close()
	converse(t, "testdata/protocol", endpoint.URL, "ana-key")
}
