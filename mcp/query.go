package mcp

import (
	"context"
	"fmt"
	"strconv"

	"interlock/sqlgov"
)

// query is the tool interlock_query. Its first text is a JSON array of row objects; the structured content repeats the
// rows and describes them. A further text follows when rows were left out, or when the statement has no rows to show.
func (s *Server) query(ctx context.Context, caller sqlgov.Caller, args value) (content, string, error) {
	limit, _ := integer(args.get("limit")) // 0 when it is not given
	res, err := s.Core.Query(ctx, sqlgov.Request{
		Caller:  caller,
		Source:  args.get("source_id").str,
		SQL:     args.get("sql").str,
		MaxRows: int(limit),
	})
	if err != nil {
		return content{}, "", err
	}
	return s.present(res), res.DecisionID, nil
}

func (s *Server) present(res *sqlgov.Result) content {
	maxBytes := or(s.MaxReplyBytes, defaultMaxReply)
	rows, shown := appendRows(nil, res, maxBytes)
	said := content{texts: [][]byte{rows}}
	switch {
	case shown < len(res.Rows):
		said.texts = append(said.texts, fmt.Appendf(nil, "The result was cut after %d rows, at %d bytes. %s", shown, maxBytes, refine))
	case res.Truncated:
		said.texts = append(said.texts, fmt.Appendf(nil, "The result was cut after %d rows; there are more. %s", shown, refine))
	case len(res.Columns) == 0:
		said.texts = append(said.texts, []byte("Done: "+res.Tag+". The statement returns no rows."))
	}
	b := appendColumns([]byte(`,"columns":`), res.Columns)
	b = strconv.AppendInt(append(b, `,"row_count":`...), int64(shown), 10)
	b = strconv.AppendBool(append(b, `,"truncated":`...), res.Truncated || shown < len(res.Rows))
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(res.Limit), 10)
	b = appendString(append(b, `,"command":`...), res.Tag)
	if res.Cached {
		b = append(b, `,"cache":"hit"`...)
	}
	b = appendString(append(b, `,"decision_id":`...), res.DecisionID)
	said.structured = [][]byte{[]byte(`{"rows":`), rows, append(b, '}')}
	return said
}

// refine says what to do about a result that was cut.
const refine = "Do not draw conclusions from the rows shown alone. Count or aggregate in SQL, select fewer columns, add " +
	"a WHERE condition, or page: ORDER BY a unique column and continue after the last value seen."
