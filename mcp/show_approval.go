package mcp

import (
	"context"

	"interlock/sqlgov"
)

// showApproval is the tool interlock_show_approval. Its text is a JSON object with how a queued statement stands: approval_state,
// what people said to it, and how it ended. The structured content is the same.
func (s *Server) showApproval(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	view, err := s.Core.ShowApproval(ctx, caller, args.get("approval_id").str)
	if err != nil {
		return content{}, "", err
	}
	b, err := encodeJSON(view)
	if err != nil {
		return content{}, "", err
	}
	return content{texts: [][]byte{b}, structured: [][]byte{b}}, "", nil
}
