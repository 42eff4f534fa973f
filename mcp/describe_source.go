package mcp

import (
	"context"

	"interlock/sqlgov"
)

// describeSource is the tool interlock_describe_source. Its text is a JSON array with one object for each column that
// the caller may describe.
func (s *Server) describeSource(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	columns, decision, err := s.Core.DescribeSource(ctx, caller, args.get("source_id").str)
	if err != nil {
		return content{}, "", err
	}
	return asJSON(columns, decision)
}
