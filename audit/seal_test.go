package audit

import (
	"strings"
	"testing"
)

func TestSealedTexts(t *testing.T) {
	owner, err := NewOwnerKey()
	must(t, err)
	again, err := ParseOwnerKey(owner.Secret())
	must(t, err)
	other, err := NewOwnerKey()
	must(t, err)
	s, err := NewSealer(owner.Public())
	must(t, err)
	const text = "select * from t where ssn = '123-45-6789'"
	one, err := s.Seal("01A", text)
	must(t, err)
	two, err := s.Seal("01A", text)
	must(t, err)
	if one == two || strings.Contains(one, "ssn") {
		t.Errorf("%s\n%s", one, two)
	}
	for _, sealed := range []string{one, two} {
		if got, err := again.Open("01A", sealed); err != nil || got != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	flipped := []byte(one)
	flipped[len(flipped)-3] ^= 1
	for name, open := range map[string]func() (string, error){
		"another owner":    func() (string, error) { return other.Open("01A", one) },
		"another decision": func() (string, error) { return owner.Open("01B", one) },
		"altered":          func() (string, error) { return owner.Open("01A", string(flipped)) },
		"cut":              func() (string, error) { return owner.Open("01A", one[:len(one)/2]) },
		"nothing":          func() (string, error) { return owner.Open("01A", "") },
	} {
		if got, err := open(); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := NewSealer(owner.Secret()); err == nil {
		t.Error("a secret key was taken for a public one")
	}
}
