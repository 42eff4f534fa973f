package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"
)

// A cursor gives what its query may give, and is judged again at each FETCH; it ends with its transaction, and no cursor that
// the gateway has not seen declared can be read.
func TestCursors(t *testing.T) {
	g := copyGateway(t)
	for _, where := range []string{"simple", "extended"} {
		at := servedDoors(g)[where]()
		for _, tc := range []struct{ sql, state, says string }{
			{"begin", "", "[BEGIN]"},
			{"declare c cursor for select i from n order by i", "", "[DECLARE CURSOR]"},
			{"fetch 2 from c", "", "[[1] [2]]"},
			{"move 1 in c", "", "[MOVE 1]"},
			{"fetch c", "", "[[4]]"},
			{"fetch 3 from c", "54000", "more than 5 rows"}, // five in all, whatever the pieces
			{"rollback", "", "[ROLLBACK]"},
			{"fetch c", "34000", "does not exist"},
			{"begin", "", "[BEGIN]"},
			{"declare c scroll cursor for select id from people", "", ""},
			{"close c", "", "[CLOSE CURSOR]"},
			{"fetch c", "34000", "does not exist"},
			{"rollback", "", ""},
			{"declare c cursor with hold for select id from people", "0A000", "WITH HOLD"},
			{"declare c cursor for select ssn from people", "42501", "ssn"},
			{"begin", "", ""},
			{"declare c cursor for select id, name from people", "", ""},
			{"close all", "", "[CLOSE CURSOR ALL]"},
			{"fetch c", "34000", "does not exist"},
			{"rollback", "", ""},
		} {
			got := at.run(t.Context(), step{Q: tc.sql})
			if got.state != tc.state || !strings.Contains(got.message+fmt.Sprint(got.rows, got.tags), tc.says) {
				t.Errorf("%s: %s: %q %s %v %v", where, tc.sql, got.state, got.message, got.rows, got.tags)
			}
		}
		at.close()
	}
}
