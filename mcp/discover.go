package mcp

import (
	"context"
	"time"

	"interlock/sqlgov"
)

// searchSource is the tool interlock_discover. Its text is a JSON object with the assets that were found, best first.
func (s *Server) searchSource(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	limit, _ := integer(args.get("limit")) // 0 when it is not given
	found, err := s.Core.Discover(ctx, caller, args.get("source_id").str, sqlgov.Search{
		Text:          args.get("query").str,
		SourceTypes:   items(args.get("source_types")),
		DocumentTypes: items(args.get("document_types")),
		CategoryPath:  args.get("category_path").str,
		From:          instant(args.get("time_range").get("from")),
		To:            instant(args.get("time_range").get("to")),
		Audience:      items(args.get("audience")),
		Entities:      items(args.get("entities")),
		Related:       string(args.get("include_related").raw) == "true",
		Limit:         int(limit),
	})
	if err != nil {
		return content{}, "", err
	}
	return asJSON(found, found.DecisionID)
}

// relatedDocuments is the tool interlock_related_documents. Its text is a JSON object.
func (s *Server) relatedDocuments(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	limit, _ := integer(args.get("limit"))
	found, err := s.Core.RelatedTo(ctx, caller, args.get("asset_id").str, int(limit))
	if err != nil {
		return content{}, "", err
	}
	return asJSON(found, found.DecisionID)
}

// items are the items of an array of strings.
func items(v value) []string {
	list := make([]string, len(v.items))
	for i, item := range v.items {
		list[i] = item.str
	}
	return list
}

// instant is a time that has been checked; the zero time if there is none.
func instant(v value) time.Time {
	t, err := time.Parse(time.RFC3339, v.str)
	if err != nil {
		return time.Time{}
	}
	return t
}
