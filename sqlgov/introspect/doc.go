// Package introspect lets everyone ask PostgreSQL's catalogs, and shows each identity what its roles let it see.
//
// PostgreSQL does not filter pg_catalog: whoever connects can read the name, the comment and the definition of
// everything. A statement that is allowed because of this package must be sent as Rewrite writes it: each reference to
// a catalog stands for a sub-select of the rows about visible objects, and each call that would print a definition or a
// name is guarded. The rest of the text stays as it was, byte for byte. The tables of relations.go and functions.go are
// closed: what is not in them needs a permission, as before.
//
// The package is pure: what is visible follows from the permissions and the catalog, by See.
package introspect
