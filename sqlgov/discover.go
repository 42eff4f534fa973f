package sqlgov

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"interlock/sqlgov/policy"
)

// Bounds of a search.
const (
	maxTerms         = 16 // words of a text that are looked for; the rest is not
	defaultFound     = 10
	maxFound         = 50
	maxRelatedToEach = 10 // of what is related to a result, when a search asks for that
)

// Search is what a caller looks for among the assets of a source. A filter that is empty selects everything.
type Search struct {
	Text          string   // words, of which at least one must begin a word of the asset's name or comment
	SourceTypes   []string // kinds of source
	DocumentTypes []string // table, view, column, ...
	CategoryPath  string   // schema, or schema/table
	From, To      time.Time
	Audience      []string // source roles
	Entities      []string // tables: schema.table, or the table's name alone
	Related       bool     // add to each result what it is related to
	Limit         int      // 10 if 0, at most 50
}

// Discovery is what a search has found.
type Discovery struct {
	SourceID   string     `json:"source_id"`
	Results    []Document `json:"results"`
	Total      int        `json:"total"`     // of what matches and the caller may describe
	Truncated  bool       `json:"truncated"` // there are more than Results
	DecisionID string     `json:"decision_id"`
}

// Document is an asset of a source as far as the caller may know of it.
type Document struct {
	AssetID      string   `json:"asset_id"` // source/name
	DocumentType string   `json:"document_type"`
	Name         string   `json:"name"` // as SQL names it
	Description  string   `json:"description,omitempty"`
	DataType     string   `json:"data_type,omitempty"`
	CategoryPath string   `json:"category_path"`
	Entities     []string `json:"entities,omitempty"` // the table that it is or belongs to, and those that it refers to
	Audience     []string `json:"audience"`           // those of the caller's roles that allow something on it
	// UpdatedAt is when the gateway first saw it with this name and comment.
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	Related   []Related `json:"related,omitempty"`
}

// Related is an asset that another one has to do with.
type Related struct {
	Relation string `json:"relation"` // what the asset is to the other: references, referenced_by, column, ...
	AssetID  string `json:"asset_id"`
}

// AssetText is what a search looks for in an asset.
type AssetText struct {
	Key     string // unique in its source
	Name    string
	Comment string
}

// AssetHit is an asset in which words were found. The first word is bit 0.
type AssetHit struct {
	Key       string
	Since     time.Time // when the index first had it with this text
	InName    uint32
	InComment uint32
}

// AssetIndex is a full-text index of what sources contain.
type AssetIndex interface {
	// Find returns the assets of a source in whose texts one of the words, at most 32, begins a word; all of them if
	// there are no words. Texts gives the assets if the index is of another version.
	Find(ctx context.Context, source, version string, words []string, texts func() []AssetText) ([]AssetHit, error)
}

// Discover searches a source among what the caller may describe. Nothing about the answer depends on anything else: not
// the order, not a number.
func (c *Core) Discover(ctx context.Context, caller Caller, source string, s Search) (*Discovery, error) {
	a := &admission{caller: caller, source: source, looks: "discover"}
	if r := c.look(ctx, a, c.resolveSource); r != nil {
		return nil, r
	}
	scene := newScene(a)
	hits, err := c.findAssets(ctx, a, words(s.Text))
	if err != nil {
		return nil, err
	}
	found := scene.rank(hits)
	found = slices.DeleteFunc(found, func(f sighting) bool { return !s.selects(a.src, &f.doc) })
	limit := min(cmp.Or(max(s.Limit, 0), defaultFound), maxFound)
	d := &Discovery{SourceID: source, Results: []Document{}, Total: len(found), Truncated: len(found) > limit, DecisionID: a.id}
	for _, f := range found[:min(limit, len(found))] {
		if s.Related {
			f.doc.Related, _ = scene.related(f.asset, maxRelatedToEach)
		}
		d.Results = append(d.Results, f.doc)
	}
	return d, nil
}

// findAssets asks the index. What it says is about all assets, so nothing of it may show that scene does not filter.
func (c *Core) findAssets(ctx context.Context, a *admission, words []string) ([]AssetHit, error) {
	if c.Assets == nil {
		return nil, &Refusal{Kind: SourceUnavailable, SQLState: "08004", Message: "there is no search index", DecisionID: a.id}
	}
	hits, err := c.Assets.Find(ctx, a.source, a.index.Snapshot.Version, words, func() []AssetText { return assetTexts(a.index) })
	if err != nil {
		return nil, &Refusal{Kind: SourceUnavailable, SQLState: "08004", Err: err, DecisionID: a.id,
			Message: fmt.Sprintf("the search index of source %q cannot be read", a.source),
			Hint:    "Use interlock_describe_source, or try again later."}
	}
	return hits, nil
}

// words are the different words of a text, in lower case.
func words(text string) []string {
	var all []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if !slices.Contains(all, w) && len(all) < maxTerms {
			all = append(all, w)
		}
	}
	return all
}

// sighting is an asset that was found.
type sighting struct {
	asset *policy.Asset
	doc   Document
	score float64
}

// nameWeight is how much more a word counts in a name than in a comment.
const nameWeight = 3

// rank keeps of the hits what the caller may see, best first. A word counts the more the fewer assets have it, of those
// that the caller sees: its weight over all assets would tell of the others.
func (sc *scene) rank(hits []AssetHit) []sighting {
	hits = slices.DeleteFunc(hits, func(h AssetHit) bool { return sc.byName[h.Key] == nil })
	var having [32]float64
	for i := range hits {
		for word := range having {
			if (hits[i].InName|hits[i].InComment)>>word&1 != 0 {
				having[word]++
			}
		}
	}
	found := make([]sighting, len(hits))
	for i := range hits {
		h := &hits[i]
		asset := sc.byName[h.Key]
		found[i] = sighting{asset: asset, doc: sc.document(asset, h.Since)}
		for word, n := range having {
			rarity := math.Log(1 + float64(len(sc.assets))/max(n, 1))
			found[i].score += rarity * float64(nameWeight*(h.InName>>word&1)+h.InComment>>word&1)
		}
	}
	slices.SortFunc(found, func(x, y sighting) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(x.doc.Name, y.doc.Name))
	})
	return found
}

// selects tells if an asset passes the filters.
func (s *Search) selects(src *policy.SourceSpec, d *Document) bool {
	return (len(s.SourceTypes) == 0 || slices.Contains(s.SourceTypes, src.Kind)) &&
		(len(s.DocumentTypes) == 0 || slices.Contains(s.DocumentTypes, d.DocumentType)) &&
		within(d.CategoryPath, s.CategoryPath) &&
		(s.From.IsZero() || !d.UpdatedAt.Before(s.From)) && (s.To.IsZero() || d.UpdatedAt.Before(s.To)) &&
		(len(s.Audience) == 0 || slices.ContainsFunc(s.Audience, func(role string) bool { return slices.Contains(d.Audience, role) })) &&
		(len(s.Entities) == 0 || slices.ContainsFunc(s.Entities, func(wanted string) bool { return slices.ContainsFunc(d.Entities, entity(wanted)) }))
}

// within tells if a path is the wanted one or lies below it.
func within(path, wanted string) bool {
	wanted = strings.Trim(wanted, "/")
	return wanted == "" || path == wanted || strings.HasPrefix(path, wanted+"/")
}

// entity matches a table by its name, with or without its schema.
func entity(wanted string) func(string) bool {
	return func(name string) bool {
		return strings.EqualFold(name, wanted) || strings.HasSuffix(strings.ToLower(name), "."+strings.ToLower(wanted)) && !strings.Contains(wanted, ".")
	}
}
