package sqlgov

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// scene is what a caller may find in a source. Whatever is told about an asset comes from it, so that what is not in it
// cannot show, as the other end of a foreign key for example.
type scene struct {
	source string
	index  *catalog.Index
	assets []policy.Asset
	byName map[string]*policy.Asset
	parts  map[part]*policy.Asset
	links  []link
}

// part is a relation, with column 0, or one of its columns.
type part struct {
	relation catalog.OID
	column   int16
}

// link is a foreign key between what is seen of two tables.
type link struct {
	from, to       catalog.OID
	columns, refer []int16
}

func newScene(a *admission) *scene {
	sc := &scene{source: a.source, index: a.index, assets: a.rules.Assets(a.caller.Identity, a.source, a.index)}
	sc.byName = make(map[string]*policy.Asset, len(sc.assets))
	sc.parts = make(map[part]*policy.Asset, len(sc.assets))
	for i := range sc.assets {
		asset := &sc.assets[i]
		sc.byName[asset.Name()] = asset
		if asset.Relation != nil {
			sc.parts[partOf(asset)] = asset
		}
	}
	for i := range sc.assets {
		if asset := &sc.assets[i]; asset.Relation != nil && asset.Column == nil {
			sc.link(asset.Relation)
		}
	}
	return sc
}

func partOf(asset *policy.Asset) part {
	p := part{relation: asset.Relation.OID}
	if asset.Column != nil {
		p.column = asset.Column.Num
	}
	return p
}

// link notes the foreign keys of a table of which every column at both ends is seen.
func (sc *scene) link(rel *catalog.Relation) {
	for i := range rel.Constraints {
		con := &rel.Constraints[i]
		if con.Kind == "f" && sc.sees(rel.OID, con.Columns) && sc.sees(con.RefTable, con.RefColumns) {
			sc.links = append(sc.links, link{rel.OID, con.RefTable, con.Columns, con.RefColumns})
		}
	}
}

func (sc *scene) sees(relation catalog.OID, columns []int16) bool {
	for _, num := range columns {
		if sc.parts[part{relation, num}] == nil {
			return false
		}
	}
	return sc.parts[part{relation, 0}] != nil
}

// document describes an asset.
func (sc *scene) document(asset *policy.Asset, since time.Time) Document {
	d := Document{AssetID: sc.id(asset), Name: asset.Name(), Audience: asset.Roles, UpdatedAt: since}
	switch {
	case asset.Function != nil:
		f := asset.Function
		d.DocumentType, d.Description, d.CategoryPath = functionType(f), f.Comment, f.Schema
		if f.Kind != "p" {
			d.DataType = typeName(sc.index, f.Result)
		}
	case asset.Column != nil:
		d.DocumentType, d.Description, d.DataType = "column", asset.Column.Comment, asset.Column.TypeName
		d.CategoryPath, d.Entities = asset.Relation.Schema+"/"+asset.Relation.Name, sc.entities(asset)
	default:
		d.DocumentType, d.Description = relationType(asset.Relation.Kind), asset.Relation.Comment
		d.CategoryPath, d.Entities = asset.Relation.Schema, sc.entities(asset)
	}
	return d
}

func (sc *scene) id(asset *policy.Asset) string { return sc.source + "/" + asset.Name() }

func functionType(f *catalog.Function) string {
	switch f.Kind {
	case "p":
		return "procedure"
	case "a":
		return "aggregate"
	}
	return "function"
}

func relationType(k catalog.RelationKind) string {
	switch k {
	case catalog.View:
		return "view"
	case catalog.MaterializedView:
		return "materialized_view"
	case catalog.ForeignTable:
		return "foreign_table"
	}
	return "table"
}

// entities are the table that an asset is or belongs to, and the tables that it refers to.
func (sc *scene) entities(asset *policy.Asset) []string {
	names := newNameSet()
	names.add(sc.parts[part{asset.Relation.OID, 0}].Name())
	for _, l := range sc.links {
		if l.from == asset.Relation.OID && (asset.Column == nil || slices.Contains(l.columns, asset.Column.Num)) {
			names.add(sc.parts[part{l.to, 0}].Name())
		}
	}
	return names.names
}

// related returns at most limit assets that an asset has to do with, and whether there are more: by foreign keys first,
// then by inheritance and partitioning, then the columns of a table or the table of a column.
func (sc *scene) related(asset *policy.Asset, limit int) ([]Related, bool) {
	if asset.Relation == nil {
		return nil, false
	}
	var all []Related
	add := func(relation string, p part) {
		if other := sc.parts[p]; other != nil {
			if r := (Related{relation, sc.id(other)}); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	sc.byKeys(partOf(asset), add)
	if asset.Column != nil {
		add("table", part{asset.Relation.OID, 0})
	} else {
		sc.byFamily(asset.Relation, add)
	}
	slices.SortStableFunc(all, func(x, y Related) int {
		if x.Relation == "column" && y.Relation == "column" {
			return 0 // as they are in the table
		}
		return cmp.Or(cmp.Compare(slices.Index(relationOrder, x.Relation), slices.Index(relationOrder, y.Relation)), cmp.Compare(x.AssetID, y.AssetID))
	})
	return all[:min(limit, len(all))], len(all) > limit
}

// relationOrder is the order in which relations are listed.
var relationOrder = []string{"references", "referenced_by", "parent", "child", "table", "column"}

// byKeys follows the foreign keys of a table or of a column.
func (sc *scene) byKeys(p part, add func(string, part)) {
	for _, l := range sc.links {
		if p.column == 0 {
			if l.from == p.relation {
				add("references", part{l.to, 0})
			}
			if l.to == p.relation {
				add("referenced_by", part{l.from, 0})
			}
			continue
		}
		for i := range l.columns {
			if (part{l.from, l.columns[i]}) == p {
				add("references", part{l.to, l.refer[i]})
			}
			if (part{l.to, l.refer[i]}) == p {
				add("referenced_by", part{l.from, l.columns[i]})
			}
		}
	}
}

// byFamily follows inheritance, and adds the columns.
func (sc *scene) byFamily(rel *catalog.Relation, add func(string, part)) {
	for _, oid := range rel.Parents {
		add("parent", part{oid, 0})
	}
	for _, oid := range sc.index.Children(rel.OID) {
		add("child", part{oid, 0})
	}
	for i := range rel.Columns {
		add("column", part{rel.OID, rel.Columns[i].Num})
	}
}

// RelatedDocuments is what is related to one asset.
type RelatedDocuments struct {
	AssetID    string     `json:"asset_id"`
	Results    []Document `json:"results"`
	Relations  []Related  `json:"relations"` // what each result is to the asset, in the same order
	Truncated  bool       `json:"truncated"`
	DecisionID string     `json:"decision_id"`
}

// RelatedTo returns what is related to an asset, in the same source. An asset that the caller may not find is answered
// as one that does not exist.
func (c *Core) RelatedTo(ctx context.Context, caller Caller, assetID string, limit int) (*RelatedDocuments, error) {
	source, name, _ := strings.Cut(assetID, "/")
	a := &admission{caller: caller, source: source, looks: "related"}
	var scene *scene
	find := func(context.Context, *admission) *Refusal {
		if scene = newScene(a); scene.byName[name] == nil {
			return &Refusal{Kind: UnknownSource, SQLState: "42501", Message: fmt.Sprintf("there is no asset %q", assetID),
				Hint: "Take an asset_id from interlock_discover."}
		}
		return nil
	}
	if r := c.look(ctx, a, c.resolveSource, find); r != nil {
		return nil, r
	}
	hits, err := c.findAssets(ctx, a, nil)
	if err != nil {
		return nil, err
	}
	since := make(map[string]time.Time, len(hits))
	for _, h := range hits {
		since[h.Key] = h.Since
	}
	found := &RelatedDocuments{AssetID: assetID, Results: []Document{}, DecisionID: a.id}
	found.Relations, found.Truncated = scene.related(scene.byName[name], min(cmp.Or(max(limit, 0), defaultFound), maxFound))
	for _, r := range found.Relations {
		name := strings.TrimPrefix(r.AssetID, source+"/")
		found.Results = append(found.Results, scene.document(scene.byName[name], since[name]))
	}
	return found, nil
}

// maxAssets bounds what is indexed of one source.
const maxAssets = 500_000

// assetTexts are the texts of everything in a catalog outside the system schemas, whoever may see it.
func assetTexts(x *catalog.Index) []AssetText {
	var all []AssetText
	add := func(a policy.Asset, name, comment string) {
		if len(all) < maxAssets {
			all = append(all, AssetText{Key: a.Name(), Name: spaced(name), Comment: comment})
		}
	}
	for i := range x.Snapshot.Relations {
		rel := &x.Snapshot.Relations[i]
		if catalog.IsSystemSchema(rel.Schema) {
			continue
		}
		add(policy.Asset{Relation: rel}, rel.Schema+" "+rel.Name, rel.Comment)
		for k := range rel.Columns {
			// The name of its table finds a column too, after the table.
			col := &rel.Columns[k]
			add(policy.Asset{Relation: rel, Column: col}, col.Name, spaced(rel.Name)+" "+col.Comment)
		}
	}
	for i := range x.Snapshot.Functions {
		if f := &x.Snapshot.Functions[i]; !catalog.IsSystemSchema(f.Schema) {
			add(policy.Asset{Function: f}, f.Schema+" "+f.Name, f.Comment)
		}
	}
	return all
}

// spaced adds to a name the words that it is made of: "customerOrders" is "customer orders" as well.
func spaced(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if lower && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(r)
	}
	if b.Len() == len(name) {
		return name
	}
	return name + " " + b.String()
}
