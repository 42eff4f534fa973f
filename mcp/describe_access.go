package mcp

import (
	"context"

	"interlock/sqlgov"
)

// describeAccess is the tool interlock_describe_access. Its text is a JSON object keyed by source id. A source that
// the caller has no grant on is left out, whether it exists or not.
func (s *Server) describeAccess(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	access, decision, err := s.Core.DescribeAccess(ctx, caller, args.get("source_id").str)
	if err != nil {
		return content{}, "", err
	}
	return asJSON(access, decision)
}
