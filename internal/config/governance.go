package config

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"interlock/sqlgov/policy"
)

// namePattern says in JSON Schema what policy.Check demands of names.
const namePattern = `^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$`

// LoadGovernance reads a governance document and checks all of it: what it returns compiles. Paths in it are relative
// to its directory; in the returned document they are absolute. If the file can be read but is wrong, the error is of
// type Problems.
func LoadGovernance(path string) (*policy.Document, error) {
	data, abs, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the governance document: %w", err)
	}
	doc, err := parseGovernance(path, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	doc.File = abs
	anchorSources(doc, filepath.Dir(abs))
	return doc, nil
}

// CheckGovernance is LoadGovernance with warnings: what is likely a mistake, and secrets and certificates that cannot be
// read from here.
func CheckGovernance(path string) (doc *policy.Document, warnings Problems, err error) {
	data, abs, err := readFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the governance document: %w", err)
	}
	r := &reader{file: path, lookup: os.LookupEnv}
	doc, root := r.governance(data)
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	doc.File = abs
	anchorSources(doc, filepath.Dir(abs))
	for _, p := range policy.Review(doc) {
		r.fail(locate(root, p.Path), "%s", p.Message)
	}
	for i := range doc.Sources {
		reviewSecrets(r, root, &doc.Sources[i])
	}
	return doc, r.problems.sorted(), nil
}

func reviewSecrets(r *reader, root *yaml.Node, s *policy.SourceSpec) {
	u := &s.Upstream
	for _, secret := range []struct{ key, ref string }{{"password", u.Password}, {"ca", fileRef(u.CA)}, {"cert", fileRef(u.Cert)}, {"key", fileRef(u.Key)}} {
		if secret.ref == "" {
			continue
		}
		if _, err := Resolve(secret.ref); err != nil {
			r.fail(locate(root, []string{"sources", s.ID, "upstream", secret.key}), "%s", err)
		}
	}
}

// ParseGovernance is LoadGovernance for a document that is not in a file of its own. Relative paths are relative to dir.
// name stands for the file in errors.
func ParseGovernance(name, dir string, data []byte) (*policy.Document, error) {
	doc, err := parseGovernance(name, data, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	doc.File = name
	anchorSources(doc, dir)
	return doc, nil
}

func parseGovernance(name string, data []byte, lookup func(string) (string, bool)) (*policy.Document, error) {
	r := &reader{file: name, lookup: lookup}
	doc, _ := r.governance(data)
	if err := r.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

// governance reads a governance document. The results are of use if there are no problems.
func (r *reader) governance(data []byte) (*policy.Document, *yaml.Node) {
	g := &governance{}
	root := r.document(data, g.shape())
	if root != nil {
		g.check(r, root)
	}
	return &g.doc, root
}

// check adds what is wrong with the meaning of the document. Where reading it has failed already, what follows from that
// is left out.
func (g *governance) check(r *reader, root *yaml.Node) {
	read := slices.Clone(r.problems)
	for _, p := range policy.Check(&g.doc) {
		if n := locate(root, p.Path); !read.at(n.Line, n.Column) {
			r.fail(n, "%s", p.Message)
		}
	}
}

func anchorSources(doc *policy.Document, dir string) {
	for i := range doc.Sources {
		u := &doc.Sources[i].Upstream
		u.CA, u.Cert, u.Key = under(dir, u.CA), under(dir, u.Cert), under(dir, u.Key)
		if path, isFile := cutFile(u.Password); isFile {
			u.Password = "file:" + under(dir, path)
		}
	}
}

// governance is a governance document while it is read.
type governance struct {
	version int
	doc     policy.Document
}

func (g *governance) shape() shape {
	return &object{
		about:    "What the gateway governs: sources, the roles that can be held on them, and who holds which.",
		required: []string{"version"},
		fields: []field{
			{"version", integer(&g.version, "Version of this format.", bounds{1, 1, 0})},
			{"sources", &table{"Sources by id. For PostgreSQL clients the id is the database name.", g.source}},
			{"source_roles", &table{"Roles by name. A role is a named set of permissions on one source.", g.role}},
			{"identities", &table{"Identities by name. For PostgreSQL clients the name is the user name.", g.identity}},
			{"groups", &table{"Groups by name: the people who may approve what policies hold.", g.group}},
			{"labels", &table{"Labels by name. A label names columns, for the conditions of policies.", g.label}},
			{"masks", &table{"Masks by name. Source roles and policies put them on columns.", g.mask}},
			{"policies", &table{"Policies by name.", g.policy}},
			{"audit", &object{
				about: "What the audit log keeps.",
				fields: []field{{"keep_text", text(&g.doc.Audit.KeepText, "", "Public key of the owner for whom the full text and the parameters of each statement are sealed, as \"interlock audit owner-key\" prints it. "+
					"Without it they are not kept: records have statements with their literals replaced.", `^interlock-owner-[A-Za-z0-9_-]{43}$`, checkOwnerKey)}},
			}},
		},
	}
}

func checkOwnerKey(key string) error {
	encoded, ok := strings.CutPrefix(key, "interlock-owner-")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != 32 {
		return fmt.Errorf("this is no owner's public key; \"interlock audit owner-key\" makes one")
	}
	return nil
}

func line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

func value(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func (g *governance) source(key *yaml.Node) shape {
	s := policy.SourceSpec{ID: value(key), Line: line(key)}
	return &object{
		about:    "A registered upstream.",
		required: []string{"kind", "upstream"},
		fields: []field{
			{"kind", choice(&s.Kind, "", "What the source is.", policy.SourceKinds...)},
			{"description", words(&s.Description, "", "For the people and agents that may use the source.")},
			{"disabled", boolean(&s.Disabled, "Refuse every request to the source.")},
			{"upstream", upstreamShape(&s.Upstream)},
			{"limits", sourceLimitsShape(&s.Limits)},
			{"content", contentShape(&s)},
			{"cache", cacheShape(&s.Cache)},
			{"scan_interval", duration(&s.ScanInterval, "Time between two scans of the catalog. Default: 5m.", time.Second, 7*day, 0)},
		},
		done: func(*reader, func(string) *yaml.Node) { g.doc.Sources = append(g.doc.Sources, s) },
	}
}

func upstreamShape(u *policy.UpstreamSpec) shape {
	return &object{
		about:    "How to reach the PostgreSQL server. The login should have no more rights than the roles of the source give away.",
		required: []string{"host", "database", "user"},
		fields: []field{
			{"host", words(&u.Host, "", "Host name, address, or absolute path of the directory of a Unix socket. Several with commas are copies of one database, each with a port of its own behind a colon if it has one: "+
				"a connection is made to the first that can be reached and fits.")},
			{"target_session_attrs", choice(&u.Target, "", "Which of the servers will do, as in libpq. prefer-standby takes any when there is no standby. Default: any.", policy.Targets...)},
			{"pool_mode", choice(&u.PoolMode, "", "How long a session of the PostgreSQL door keeps a connection: to its end, or for a transaction at a time. Default: session.", policy.PoolModes...)},
			{"port", integer(&u.Port, "TCP port, or number of the Unix socket, of each host that names none.", bounds{1, 65535, 5432})},
			{"database", words(&u.Database, "", "Database name.")},
			{"user", words(&u.User, "", "Login of the gateway.")},
			{"password", text(&u.Password, "", "Reference to the login's password: env:NAME or file:PATH.", referencePattern, checkReference)},
			{"tls", choice(&u.TLS, "", "How the connection is protected. verify-full is the default; verify-ca does not compare the host name; require does not verify "+
				"the server at all; disable is possible for loopback addresses only, and is the default for Unix sockets.", "disable", "require", "verify-ca", "verify-full")},
			{"ca", words(&u.CA, "", "PEM file with the certificates of the authorities that are trusted. Default: those of the system.")},
			{"cert", words(&u.Cert, "", "PEM file with the client certificate.")},
			{"key", words(&u.Key, "", "PEM file with the key of the client certificate.")},
		},
		done: func(r *reader, node func(string) *yaml.Node) { finishUpstream(u, r, node) },
	}
}

func finishUpstream(u *policy.UpstreamSpec, r *reader, node func(string) *yaml.Node) {
	if u.Host != "" {
		finishServers(u, r, node)
	}
	if (u.Cert == "") != (u.Key == "") {
		r.fail(node("cert"), "cert and key belong together")
	}
}

// finishServers checks the servers and how their connections are protected, and sets the default of that.
func finishServers(u *policy.UpstreamSpec, r *reader, node func(string) *yaml.Node) {
	servers, err := u.Servers()
	if err != nil {
		r.fail(node("host"), "%s", err)
		return
	}
	given := u.TLS
	for _, s := range servers {
		socket := filepath.IsAbs(s.Host)
		switch {
		case socket != filepath.IsAbs(servers[0].Host):
			r.fail(node("host"), "Unix sockets and hosts cannot be mixed")
		case given == "" && socket:
			u.TLS = "disable"
		case given == "":
			u.TLS = "verify-full"
		case socket && given != "disable":
			r.fail(node("tls"), "a Unix socket has no TLS; leave the key out")
		case given == "disable" && !socket && !loopback(joinPort(s.Host)):
			r.fail(node("tls"), "%s is not on the loopback interface, so its connections need TLS", s.Host)
		}
	}
}

func sourceLimitsShape(l *policy.SourceLimits) shape {
	var bytes int64
	limits := append(rateFields(&l.Rate, "each identity on the source"), concurrencyFields(&l.Concurrency, "all identities on the source")...)
	return &object{
		about: "What may be taken from the source.",
		fields: append([]field{
			{"connections", integer(&l.Connections, "Connections to the server in all. Default: 50.", bounds{1, 100_000, 0})},
			{"statement_timeout", duration(&l.StatementTimeout, "A statement that runs longer is cancelled. Default: 5m.", time.Millisecond, day, 0)},
			{"rows", integer(&l.Rows, "Rows of one result over MCP. Default: 1000.", bounds{1, 10_000_000, 0})},
			{"bytes", size(&bytes, "Size of one result over MCP. Default: 8MiB.", bounds{kib, gib, 0})},
		}, limits...),
		done: func(r *reader, node func(string) *yaml.Node) {
			l.Bytes = int(bytes)
			checkLimits(&l.Rate, &l.Concurrency, r, node)
		},
	}
}

func (g *governance) role(key *yaml.Node) shape {
	role := policy.RoleSpec{Name: value(key), Line: line(key)}
	return &object{
		about:    "A source role.",
		required: []string{"source", "permissions"},
		fields: []field{
			{"source", words(&role.Source, "", "Id of the source.")},
			{"permissions", &list{about: "A deny wins over every allow. What nothing allows is refused.", item: func() shape { return permissionShape(&role) }}},
			{"masks", &list{about: "Columns that the role may read only masked. A mask takes away: it counts beside every other role, and where two masks meet nothing is shown.",
				item: func() shape {
					return maskRuleShape("A mask on columns.", func(m *policy.MaskRule, at *yaml.Node) {
						m.Line = at.Line
						role.Masks = append(role.Masks, *m)
					})
				}}},
		},
		done: func(*reader, func(string) *yaml.Node) { g.doc.Roles = append(g.doc.Roles, role) },
	}
}

func permissionShape(role *policy.RoleSpec) shape {
	var allow, deny []policy.Action
	var on []policy.Resource
	return &object{
		about:    "Allows or denies actions on resources.",
		required: []string{"on"},
		oneOf:    []string{"allow", "deny"},
		fields: []field{
			{"allow", actionsShape(&allow, "Actions that are allowed.")},
			{"deny", actionsShape(&deny, "Actions that are denied.")},
			{"on", &list{about: "Resources.", some: true, item: func() shape { return grantedShape(&on) }}},
		},
		done: func(_ *reader, node func(string) *yaml.Node) {
			p := policy.Permission{Effect: policy.Allow, Actions: allow, Resources: on, Line: node("").Line}
			if node("deny") != node("") {
				p.Effect, p.Actions = policy.Deny, deny
			}
			role.Permissions = append(role.Permissions, p)
		},
	}
}

func actionsShape(to *[]policy.Action, about string) shape {
	return &list{about: about, some: true, item: func() shape {
		var one string
		s := choice(&one, "", "", policy.ActionNames()...)
		s.set = func(text string) error { // policy.Check knows the actions
			*to = append(*to, policy.Action(text))
			return nil
		}
		return s
	}}
}

// part is one part of a resource pattern: *, an unquoted identifier (letters, digits, _ and $, and whatever is not
// ASCII), or a quoted one.
const (
	part            = `(\*|[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f][^\x00-\x23\x25-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*|"([^"]|"")+")`
	resourcePattern = `^(\*|` + part + `\.` + part + `(\.` + part + `)?)$`
	grantedPattern  = `^(\*|` + part + `\.` + part + `(\.` + part + `)?|channel:` + part + `)$`
)

func resourceShape(to *[]policy.Resource) shape {
	var written string
	s := text(&written, "", `A pattern: "*" for everything outside the system schemas, schema.table for a table with all its columns, schema.table.column, `+
		`or schema.function. A part may be *. Identifiers are folded to lower case unless they are in double quotes. The system schemas must be named.`,
		resourcePattern, nil)
	s.set = func(text string) error {
		r, err := policy.ParseResource(text)
		*to = append(*to, r)
		if err == nil && r.Channel {
			return fmt.Errorf("resource %q: a channel has no columns", text)
		}
		return err
	}
	return s
}

// grantedShape is a resource of a permission, which may be a channel too.
func grantedShape(to *[]policy.Resource) shape {
	var written string
	s := text(&written, "", `A pattern: "*" for everything outside the system schemas, schema.table for a table with all its columns, schema.table.column, `+
		`schema.function, or channel:name for a channel of LISTEN and NOTIFY. For large objects and db.execute_raw it is "*". A part may be *. Identifiers are folded to lower case unless they are in double `+
		`quotes. The system schemas must be named.`, grantedPattern, nil)
	s.set = func(text string) error {
		r, err := policy.ParseResource(text)
		*to = append(*to, r)
		return err
	}
	return s
}

func (g *governance) identity(key *yaml.Node) shape {
	who := policy.Identity{Name: value(key), Line: line(key)}
	return &object{
		about:    "Who may ask.",
		required: []string{"kind"},
		fields: []field{
			{"kind", choice(&who.Kind, "", "What the identity is.", policy.IdentityKinds...)},
			{"team", words(&who.Team, "", "Team of the identity, for the conditions of policies.")},
			{"attributes", attributesShape(&who.Attributes)},
			{"limits", identityLimitsShape(&who.Limits)},
			{"grants", &list{about: "Roles that the identity holds, by source.", item: func() shape { return grantShape(&who) }}},
		},
		done: func(*reader, func(string) *yaml.Node) { g.doc.Identities = append(g.doc.Identities, who) },
	}
}

func grantShape(who *policy.Identity) shape {
	var grant policy.Grant
	return &object{
		about:    "Roles on one source.",
		required: []string{"source", "roles"},
		fields: []field{
			{"source", words(&grant.Source, "", "Id of the source.")},
			{"roles", &list{about: "Names of roles on that source.", some: true, item: func() shape {
				var one string
				s := words(&one, "", "")
				set := s.set
				s.set = func(text string) error {
					if err := set(text); err != nil {
						return err
					}
					grant.Roles = append(grant.Roles, one)
					return nil
				}
				return s
			}}},
		},
		done: func(_ *reader, node func(string) *yaml.Node) {
			grant.Line = node("").Line
			who.Grants = append(who.Grants, grant)
		},
	}
}
