package mcp

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAppendString: whatever the text, a JSON reader gets it back.
func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x7f", "é 😀", "\u202e\u2028\ufeff\U000e0041", "<&>", "\xff\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		encoded := appendString([]byte("x"), s)[1:]
		if same := appendString(nil, []byte(s)); string(same) != string(encoded) {
			t.Fatalf("as bytes %q, as a string %q", same, encoded)
		}
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatalf("%q: %v", encoded, err)
		}
		want := s
		if !utf8.ValidString(s) {
			want = string([]rune(s)) // each broken byte becomes U+FFFD
		}
		if back != want {
			t.Fatalf("%q came back as %q", want, back)
		}
		for _, r := range string(encoded) {
			if r < ' ' || r == 0x7f || r > 0x7f && r != utf8.RuneError && unseen(r) {
				t.Fatalf("%q holds %U unescaped", encoded, r)
			}
		}
	})
}

// TestUnseen names the characters that hide or reorder text. Joiners stay, because emoji and some scripts need them.
func TestUnseen(t *testing.T) {
	hidden := "\u0085\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\U000e0001\U000e007f"
	for _, r := range hidden {
		if !unseen(r) {
			t.Errorf("%U is let through", r)
		}
	}
	for _, r := range "é\u00a0ß中\u200c\u200d😀￿" {
		if unseen(r) {
			t.Errorf("%U is escaped", r)
		}
	}
}

func TestEncodeJSON(t *testing.T) {
	got, err := encodeJSON(map[string]string{"a<b>": "x\u202ey\U000e0041 é"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a<b>":"x\u202ey\udb40\udc41 é"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.HasSuffix(string(got), "\n") {
		t.Error("it ends with a line feed")
	}
}
