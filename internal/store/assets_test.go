package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"interlock/sqlgov"
)

func openTestAssets(t *testing.T, dir string) *Assets {
	t.Helper()
	x, err := OpenAssets(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// findAssets searches and expects the keys in the order of the index.
func findAssets(t *testing.T, x *Assets, source, version string, texts []sqlgov.AssetText, words ...string) map[string]sqlgov.AssetHit {
	t.Helper()
	hits, err := x.Find(t.Context(), source, version, words, func() []sqlgov.AssetText { return texts })
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]sqlgov.AssetHit{}
	for _, h := range hits {
		found[h.Key] = h
	}
	return found
}

// TestAssets: words are found where they begin a word, in the right text of the right source, whatever they are made of.
func TestAssets(t *testing.T) {
	x := openTestAssets(t, t.TempDir())
	shop := []sqlgov.AssetText{{Key: "a", Name: "customer_orders", Comment: "Größe of the order"}, {Key: "b", Name: "city", Comment: "lives in a city"}}
	if found := findAssets(t, x, "shop", "1", shop, "order", "lives", "grosse", "groß"); found["a"].InName != 1 || found["a"].InComment != 1|8 || found["b"].InComment != 2 {
		t.Errorf("found %+v", found)
	}
	for _, word := range []string{`"`, `a" OR name : "city`, "or", "near", "*", "(", "name:city", "c"} {
		if found := findAssets(t, x, "shop", "1", shop, word); len(found) != 0 {
			t.Errorf("%q finds %+v", word, found)
		}
	}
	if found := findAssets(t, x, "other", "1", []sqlgov.AssetText{{Key: "c", Name: "city"}}, "city"); len(found) != 1 || found["c"].Key != "c" {
		t.Errorf("the other source has %+v", found)
	}
	if found := findAssets(t, x, "shop", "1", nil); len(found) != 2 {
		t.Errorf("without words: %+v", found)
	}
}

// TestAssetsAreMadeAnew: another version of the catalog replaces the texts; those that stay keep their time, across
// processes.
func TestAssetsAreMadeAnew(t *testing.T) {
	dir := t.TempDir()
	x := openTestAssets(t, dir)
	first := findAssets(t, x, "shop", "1", []sqlgov.AssetText{{Key: "a", Name: "one"}, {Key: "b", Name: "two"}})
	second := findAssets(t, openTestAssets(t, dir), "shop", "2", []sqlgov.AssetText{{Key: "a", Name: "one"}, {Key: "b", Name: "three"}})
	if len(second) != 2 || !second["a"].Since.Equal(first["a"].Since) || !second["b"].Since.After(first["b"].Since) {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if found := findAssets(t, x, "shop", "2", nil, "two"); len(found) != 0 {
		t.Errorf("the old text is found: %+v", found)
	}
	if _, err := x.Find(t.Context(), "shop", "2", []string{"one"}, nil); err != nil {
		t.Errorf("it is made again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Find(ctx, "shop", "3", nil, func() []sqlgov.AssetText { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller has gone: %v", err)
	}
}

// TestDamagedAssets: the index holds nothing that catalogs do not, so a damaged one is made anew.
func TestDamagedAssets(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, AssetsName), []byte("this is no database, however long it is"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := findAssets(t, openTestAssets(t, dir), "shop", "1", []sqlgov.AssetText{{Key: "a", Name: "one"}}, "one"); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
}
