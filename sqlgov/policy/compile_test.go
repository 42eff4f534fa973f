package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestCompileIndexesGrants(t *testing.T) {
	doc := document(t, "allow select *")
	doc.Identities[0].Grants = append(doc.Identities[0].Grants, Grant{Source: "other", Roles: []string{"elsewhere"}})
	r, err := Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Sources("ana"); !slices.Equal(got, []string{"other", "shop"}) {
		t.Errorf("sources %v", got)
	}
	if len(r.Sources("idle")) != 0 || len(r.Sources("nobody")) != 0 || !r.Knows("idle") || r.Knows("nobody") || r.Knows("") {
		t.Error("identities without grants")
	}
	if r.Source("shop") == nil || r.Source("nosuch") != nil || !r.Granted("ana", "other") || r.Granted("idle", "shop") {
		t.Error("sources and grants")
	}
	if got := r.Roles("ana", "other"); !slices.Equal(got, []string{"elsewhere"}) || r.Roles("ana", "nosuch") != nil {
		t.Errorf("roles %v", got)
	}
}

// The digest names the content: it survives the store and another file name, and changes with anything that decides.
func TestDigest(t *testing.T) {
	compiled := func(change func(*Document)) string {
		doc := document(t, "allow select crm.*", "deny select *.*.ssn")
		change(doc)
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var stored Document
		if err := json.Unmarshal(b, &stored); err != nil {
			t.Fatal(err)
		}
		r, err := Compile(doc)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Compile(&stored)
		if err != nil || again.Digest != r.Digest {
			t.Errorf("the stored document has digest %v, %v; it was %v", again.Digest, err, r.Digest)
		}
		return r.Digest
	}
	base := compiled(func(*Document) {})
	if len(base) != 64 || compiled(func(d *Document) { d.File = "/elsewhere.yaml" }) != base {
		t.Errorf("digest %q depends on the file name", base)
	}
	for name, change := range map[string]func(*Document){
		"effect":   func(d *Document) { d.Roles[0].Permissions[0].Effect = Deny },
		"resource": func(d *Document) { d.Roles[0].Permissions[0].Resources[0].Parts[0].Name = "hr" },
		"grant":    func(d *Document) { d.Identities[0].Grants = nil },
		"upstream": func(d *Document) { d.Sources[0].Upstream.Host = "elsewhere" },
	} {
		if compiled(change) == base {
			t.Errorf("a changed %s has the same digest", name)
		}
	}
}

func TestCheckFindsEveryProblem(t *testing.T) {
	doc := document(t, "allow select crm.orders", "allow slect crm.orders", "deny delete_rows crm.orders.id", "allow function.execute crm.f.x", "maybe select crm.orders")
	doc.Roles[0].Permissions = append(doc.Roles[0].Permissions, Permission{Effect: Allow, Line: 20})
	doc.Sources = append(doc.Sources, SourceSpec{ID: "shop", Kind: "oracle"}, SourceSpec{ID: "", Kind: "postgres"})
	doc.Roles = append(doc.Roles, RoleSpec{Name: "analyst", Source: "shp"})
	doc.Identities[0].Grants = append(doc.Identities[0].Grants, Grant{Source: "shop"}, Grant{Source: "nowhere", Roles: []string{"analyst"}},
		Grant{Source: "other", Roles: []string{"elsewhre", "elsewhere", "elsewhere"}})
	doc.Identities = append(doc.Identities, Identity{Name: "ana", Kind: "robot"}, Identity{Name: "bad name", Kind: "human"})
	_, err := Compile(doc)
	problems, ok := err.(Problems)
	if !ok {
		t.Fatalf("error %v", err)
	}
	want := []string{
		`sources.shop: source "shop" is defined twice`,
		`sources.shop.kind: unknown kind "oracle"`,
		`sources.: source id "" must be`,
		`source_roles.analyst.permissions.1.allow.0: unknown action "slect"`,
		`source_roles.analyst.permissions.2.on.0: db.table.delete_rows acts on whole tables`,
		`source_roles.analyst.permissions.3.on.0: db.function.execute acts on functions`,
		`source_roles.analyst.permissions.4: unknown effect "maybe"`,
		`source_roles.analyst.permissions.5.allow: a permission needs at least one action`,
		`source_roles.analyst.permissions.5.on: a permission needs at least one resource`,
		`source_roles.analyst: role "analyst" is defined twice`,
		`source_roles.analyst.source: unknown source "shp" (did you mean "shop"?)`,
		`identities.ana.grants.1.source: source "shop" is granted twice`,
		`identities.ana.grants.1.roles: a grant needs at least one role`,
		`identities.ana.grants.2.source: unknown source "nowhere"`,
		`identities.ana.grants.3.roles.0: unknown role "elsewhre" (did you mean "elsewhere"?)`,
		`identities.ana.grants.3.roles.2: role "elsewhere" is listed twice`,
		`identities.ana: identity "ana" is defined twice`,
		`identities.ana.kind: unknown kind "robot"`,
		`identities.bad name: identity name "bad name" must be`,
	}
	for _, w := range want {
		if !slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(strings.Join(p.Path, ".")+": "+p.Message, w) }) {
			t.Errorf("missing: %s", w)
		}
	}
	for _, p := range problems {
		text := strings.Join(p.Path, ".") + ": " + p.Message
		if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(text, w) }) {
			t.Errorf("unexpected: %s", text)
		}
	}
	doc = document(t)
	doc.Identities[0].Grants[0].Roles = []string{"elsewhere"}
	if _, err := Compile(doc); err == nil || !strings.Contains(err.Error(), `line 6: identities.ana.grants.0.roles.0: role "elsewhere" belongs to source "other", not to "shop"`) {
		t.Errorf("a role of another source: %v", err)
	}
}

func TestReview(t *testing.T) {
	doc := document(t, "allow select crm.orders crm.notes", "deny select crm.*", "allow select,insert crm.orders", "allow select *.orders.id", "allow select pg_catalog.pg_class", "deny select *")
	doc.Sources[0].Upstream.TLS = "require"
	doc.Sources = append(doc.Sources, SourceSpec{ID: "bare", Kind: "postgres"})
	want := []string{
		`identities.idle: identity "idle" has no grant`,
		`sources.shop.upstream.tls: tls mode require does not make sure`,
		`sources.bare: source "bare" has no role`,
		`source_roles.analyst.permissions.0.on.0: this never allows anything: the deny on line 11 covers it`,
		`source_roles.analyst.permissions.0.on.1: this never allows anything: the deny on line 11 covers it`,
		`source_roles.analyst.permissions.3.on.0: this never allows anything: the deny on line 15 covers it`,
		`source_roles.elsewhere: role "elsewhere" is granted to nobody`,
		`source_roles.elsewhere: role "elsewhere" has no permission`,
	}
	got := Review(doc)
	for i, p := range got {
		if text := strings.Join(p.Path, ".") + ": " + p.Message; i >= len(want) || !strings.HasPrefix(text, want[i]) {
			t.Errorf("%d: %s", i, text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d warnings, want %d", len(got), len(want))
	}
}

func TestParseResource(t *testing.T) {
	long := strings.Repeat("é", 40) // 80 bytes; PostgreSQL keeps 62 of them
	for text, want := range map[string][]Part{
		"*":                            {{Any: true}},
		"*.*":                          {{Any: true}, {Any: true}},
		"crm.*":                        {{Name: "crm"}, {Any: true}},
		"CRM.Customers.SSN":            {{Name: "crm"}, {Name: "customers"}, {Name: "ssn"}},
		`crm."Order ""x"".y".id`:       {{Name: "crm"}, {Name: `Order "x".y`}, {Name: "id"}},
		`"*".t`:                        {{Name: "*"}, {Name: "t"}},
		"*.*.ssn":                      {{Any: true}, {Any: true}, {Name: "ssn"}},
		"s." + long:                    {{Name: "s"}, {Name: strings.Repeat("é", 31)}},
		`s."` + long + `"`:             {{Name: "s"}, {Name: strings.Repeat("é", 31)}},
		"a1$.ÄB":                       {{Name: "a1$"}, {Name: "Äb"}}, // only ASCII is folded
		"pg_catalog.pg_stat.*":         {{Name: "pg_catalog"}, {Name: "pg_stat"}, {Any: true}},
		"s." + strings.Repeat("x", 70): {{Name: "s"}, {Name: strings.Repeat("x", 63)}},
	} {
		r, err := ParseResource(text)
		if err != nil || !slices.Equal(r.Parts, want) || r.Text != text {
			t.Errorf("%s: %+v %v", text, r, err)
		}
	}
	for _, text := range []string{"", "customers", ".", "crm.", ".crm", "crm..x", "a.b.c.d", "crm.cust*", "crm.**", "crm.a b", `crm."x`, `crm."x"y`, `crm.""`, "crm.1x", "crm.$x", "crm.\xff", "crm.x-y", `"*"`, "crm.t; drop"} {
		if r, err := ParseResource(text); err == nil {
			t.Errorf("%q is taken as %+v", text, r.Parts)
		}
	}
}

func FuzzParseResource(f *testing.F) {
	for _, s := range []string{"*", "crm.*", `a."b""".c`, "a.b.c.d", `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseResource(text)
		if err != nil {
			return
		}
		// What was understood, written out again, means the same.
		var parts []string
		for _, p := range r.Parts {
			if p.Any {
				parts = append(parts, "*")
			} else {
				parts = append(parts, quoteIdent(p.Name))
			}
		}
		again, err := ParseResource(strings.Join(parts, "."))
		if err != nil || !slices.Equal(again.Parts, r.Parts) {
			t.Fatalf("%q: %+v reads back as %+v, %v", text, r.Parts, again.Parts, err)
		}
	})
}

func TestSuggest(t *testing.T) {
	actions := ActionNames()
	for word, want := range map[string]string{
		"db.table.slect": ` (did you mean "db.table.select"?)`, "db.table.delete": ` (did you mean "db.table.delete_rows"?)`,
		"select": ` (did you mean "db.table.select"?)`, "": "", "frobnicate": "",
	} {
		if got := Suggest(word, actions); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
