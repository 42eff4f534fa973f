package typing

import (
	"fmt"
	"strings"

	"interlock/catalog"
)

// TypeName finds a type by name. An unqualified name is searched along the path. The parser has already turned the
// SQL names (int, character varying) into pg_catalog's. 42704 if there is no such type, 3F000 if no such schema.
func (r *Resolver) TypeName(schema, name string) (*catalog.Type, error) {
	schemas, err := r.schemas(schema)
	if err != nil {
		return nil, err
	}
	for _, s := range schemas {
		if t := r.Catalog.TypeNamed(s, name); t != nil {
			return t, nil
		}
	}
	return nil, &Error{SQLState: "42704", Message: fmt.Sprintf("type %q does not exist", qualify(schema, name)), Missing: true}
}

// schemas returns where to look for a name: the one schema it is qualified with, or the path.
func (r *Resolver) schemas(schema string) ([]string, error) {
	if schema == "" {
		return r.Path, nil
	}
	if !r.Catalog.HasSchema(schema) {
		return nil, &Error{SQLState: "3F000", Message: fmt.Sprintf("schema %q does not exist", schema), Missing: true}
	}
	return []string{schema}, nil
}

func qualify(schema, name string) string {
	if schema == "" {
		return name
	}
	return schema + "." + name
}

func errorf(state, format string, args ...any) *Error {
	return &Error{SQLState: state, Message: fmt.Sprintf(format, args...)}
}

// format names a type as PostgreSQL does in its messages: without its schema if the path finds it.
func (r *Resolver) format(t catalog.OID) string {
	if elem := r.Elem(t); elem != 0 && t != int2Vector && t != oidVector {
		return r.format(elem) + "[]"
	}
	typ := r.Catalog.Type(t)
	switch {
	case typ == nil:
		return fmt.Sprintf("type with OID %d", t)
	case typ.Display == "":
		return typ.Name
	case r.visible(typ):
		return strings.TrimPrefix(typ.Display, typ.Schema+".")
	}
	return typ.Display
}

// visible reports if the unqualified name finds this type.
func (r *Resolver) visible(typ *catalog.Type) bool {
	found, err := r.TypeName("", typ.Name)
	return err == nil && found.OID == typ.OID
}

// signature prints a call for a message: f(integer, a => text).
func (r *Resolver) signature(call Call) string {
	args := make([]string, len(call.Args))
	for i, a := range call.Args {
		args[i] = r.format(a.Type)
		if a.Name != "" {
			args[i] = a.Name + " => " + args[i]
		}
	}
	return qualify(call.Schema, call.Name) + "(" + strings.Join(args, ", ") + ")"
}
