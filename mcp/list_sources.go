package mcp

import (
	"context"

	"interlock/sqlgov"
)

// listSources is the tool interlock_list_sources. Its text is a JSON object keyed by source id.
func (s *Server) listSources(ctx context.Context, caller sqlgov.Caller, _ value) (content, string, error) {
	sources, decision, err := s.Core.Sources(ctx, caller)
	if err != nil {
		return content{}, "", err
	}
	byID := make(map[string]sqlgov.SourceInfo, len(sources))
	for _, source := range sources {
		byID[source.ID] = source
	}
	return asJSON(byID, decision)
}

// asJSON is the content of a tool that answers with one JSON text.
func asJSON(v any, decision string) (content, string, error) {
	b, err := encodeJSON(v)
	if err != nil {
		return content{}, "", err
	}
	return content{texts: [][]byte{b}}, decision, nil
}
