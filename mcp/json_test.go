package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// sameReading compares our reading of a text with that of encoding/json, member by member.
func sameReading(t *testing.T, v value) {
	t.Helper()
	switch v.shape {
	case object:
		decoder := json.NewDecoder(bytes.NewReader(v.raw))
		if _, err := decoder.Token(); err != nil {
			t.Fatal(err)
		}
		for _, m := range v.members {
			name, err := decoder.Token()
			if err != nil || name != m.name {
				t.Fatalf("member %q, encoding/json reads %q, %v", m.name, name, err)
			}
			var raw json.RawMessage
			if err := decoder.Decode(&raw); err != nil || !bytes.Equal(raw, m.value.raw) {
				t.Fatalf("member %q is %q, encoding/json reads %q, %v", m.name, m.value.raw, raw, err)
			}
			sameReading(t, m.value)
		}
	case array:
		var items []json.RawMessage
		if err := json.Unmarshal(v.raw, &items); err != nil || len(items) != len(v.items) {
			t.Fatalf("%d items, encoding/json reads %d, %v", len(v.items), len(items), err)
		}
		for i := range items {
			if !bytes.Equal(items[i], v.items[i].raw) {
				t.Fatalf("item %q, encoding/json reads %q", v.items[i].raw, items[i])
			}
			sameReading(t, v.items[i])
		}
	case text:
		var s string
		if err := json.Unmarshal(v.raw, &s); err != nil || s != v.str {
			t.Fatalf("string %q, encoding/json reads %q, %v", v.str, s, err)
		}
	}
}

// FuzzReadJSON holds our reader against the standard library's: what we take is valid and means the same there, and
// what we call malformed is malformed there too, or not UTF-8.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[]`, `{}`, ` null `, `true`, `-0.0e+1`, `1.`, `.1`, `01`, `-`, `1e`, `nul`, `truee`,
		`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\u12"`, `"\x"`, `"`, `"\`, `{"a":1,}`, `[1,]`, `{"a"}`, `{1:2}`, `{"a":1 "b":2}`,
		"\ufeff{}", "\"\x7f\"", "\"\x1f\"", "\xff", `{"k":1,"` + "\u212a" + `":2}`, `[[[[[[]]]]]]`, `"a\/\b\f\n\r\t\"\\"`, "[1\u00a0]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, flaw, err := readJSON(data)
		valid := json.Valid(data) && utf8.Valid(data)
		switch {
		case err != nil && err.malformed && valid:
			t.Fatalf("%s, but it is valid JSON", err)
		case err == nil && !valid:
			t.Fatalf("taken, but it is not valid JSON")
		case err == nil && flaw == "":
			sameReading(t, v)
		}
	})
}

func TestReadJSONBounds(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	wide := func(n int) string { return "[" + strings.Repeat("0,", n-2) + "0]" }
	for name, test := range map[string]struct {
		text string
		ok   bool
	}{
		"as deep as allowed": {nested(maxDepth + 1), true},
		"too deep":           {nested(maxDepth + 2), false},
		"very deep":          {nested(2_000_000), false},
		"as wide as allowed": {wide(maxValues), true},
		"too wide":           {wide(maxValues + 1), false},
		"long string":        {`"` + strings.Repeat("x", 4<<20) + `"`, true},
	} {
		_, flaw, err := readJSON([]byte(test.text))
		if ok := err == nil && flaw == ""; ok != test.ok {
			t.Errorf("%s: %v %q", name, err, flaw)
		}
		if err != nil && err.malformed {
			t.Errorf("%s: %v is not the reason", name, err)
		}
	}
}

// TestFold has the names that encoding/json would match to one field; it folds as bytes.EqualFold does.
func TestFold(t *testing.T) {
	for _, pair := range [][2]string{{"sql", "SQL"}, {"sql", "\u017fql"}, {"key", "\u212aEY"}, {"σ", "ς"}, {"é", "É"}} {
		if !strings.EqualFold(pair[0], pair[1]) || fold(pair[0]) != fold(pair[1]) {
			t.Errorf("%q and %q fold to %q and %q", pair[0], pair[1], fold(pair[0]), fold(pair[1]))
		}
	}
	for _, pair := range [][2]string{{"sql", "sq1"}, {"é", "e"}, {"ß", "ss"}} {
		if fold(pair[0]) == fold(pair[1]) {
			t.Errorf("%q and %q fold to the same", pair[0], pair[1])
		}
	}
}

// FuzzParseMessage never panics, never invents an id, and never takes a message that two readers could understand
// differently.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"interlock_query","arguments":{"sql":"select 1"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"1","ID":2,"method":"ping"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		msg, failed := parseMessage(body)
		if msg.id != nil && (!json.Valid(msg.id) || !bytes.Contains(body, msg.id)) {
			t.Fatalf("id %q is not in the body", msg.id)
		}
		if failed != nil {
			if failed.status < 400 || failed.message == "" {
				t.Fatalf("failure %+v says nothing", failed)
			}
			return
		}
		var lenient struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
			Params struct {
				Name      any             `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if err := json.Unmarshal(body, &lenient); err != nil {
			t.Fatalf("taken, but encoding/json says %v", err)
		}
		if lenient.Method != msg.method || !bytes.Equal(lenient.ID, msg.id) {
			t.Fatalf("we read %q %q, encoding/json %q %q", msg.method, msg.id, lenient.Method, lenient.ID)
		}
		if args := msg.params.get("arguments"); !bytes.Equal(lenient.Params.Arguments, args.raw) {
			t.Fatalf("we read arguments %q, encoding/json %q", args.raw, lenient.Params.Arguments)
		}
	})
}
