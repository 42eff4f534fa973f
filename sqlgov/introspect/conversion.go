package introspect

import (
	"cmp"
	"fmt"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// lookups are the functions that find an object by its name, as a conversion to the type does, but say NULL where there is
// none.
var lookups = map[catalog.OID]string{
	regclassType: "to_regclass", 2206: "to_regtype", 4089: "to_regnamespace", 24: "to_regproc", 2202: "to_regprocedure", 4096: "to_regrole",
}

// numeric are the types that are converted to an OID.
var numeric = map[catalog.OID]bool{oidType: true, 20: true, 21: true, 23: true}

// arrayKinds says what the elements of arrays stand for.
var arrayKinds = map[catalog.OID]kind{1008: function, 2207: function, 2208: operator, 2209: operator, 2210: relation, 2211: typ, 4090: schema, 4097: "owner"}

// insideCalls keeps what is put around an operand inside what is put around a call at the same place.
const insideCalls = 1 << 20

// conversion judges what is turned into a value that is printed as an object's name. What is not known to be visible is
// turned into it if it is, else into NULL.
func (w *writer) conversion(order int, c *analyze.Conversion) *Problem {
	k, ok := objectKinds[c.To]
	if element, isArray := arrayKinds[c.To]; isArray {
		return w.arrayConversion(c, element)
	}
	switch {
	case w.sight.all:
		return nil
	case ok && w.known(&c.Operand, k):
		return nil
	case ok && c.Literal != nil:
		return w.sight.named(k, c.Literal)
	}
	t := w.sight.index.Type(c.To)
	operand, called, found := analyze.CastExtent(w.text, c.Start)
	if !ok || !found {
		return unsupported(c.Start, "this conversion to %s is not supported by this gateway", t.Name)
	}
	tail := ""
	if numeric[c.Type] {
		tail = fmt.Sprintf(")::pg_catalog.oid)) AS t(v) WHERE %s)", w.sight.condition(k, "v"))
	} else if lookup := lookups[c.To]; lookup != "" {
		tail = fmt.Sprintf(")::pg_catalog.text)) AS t(a), LATERAL (SELECT pg_catalog.%s(a)) AS u(v) WHERE %s)", lookup, w.sight.condition(k, "v::pg_catalog.oid"))
	} else {
		return unsupported(c.Start, "looking up a %s by a name that is not written in the statement is not supported by this gateway", t.Name)
	}
	head := fmt.Sprintf("(SELECT v AS %s FROM (VALUES ((", cmp.Or(called, t.Name))
	w.edits = append(w.edits, edit{start: operand.Start, end: operand.Start, text: head, order: insideCalls - order},
		edit{start: operand.End, end: operand.End, text: tail, order: order - insideCalls})
	return nil
}

// arrayConversion judges a literal like '{int4,int8}', element by element, and columns of catalogs.
func (w *writer) arrayConversion(c *analyze.Conversion, k kind) *Problem {
	if w.sight.all || w.known(&c.Operand, k) {
		return nil
	}
	list, plain := "", false
	if c.Literal != nil {
		list, plain = strings.CutPrefix(strings.TrimSpace(c.Literal.Text), "{")
		list, _ = strings.CutSuffix(list, "}")
	}
	if !plain || strings.ContainsAny(list, `{}"\\`) {
		return unsupported(c.Start, "this conversion to %s is not supported by this gateway", w.sight.index.Type(c.To).Name)
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.EqualFold(name, "null") {
			continue
		}
		if p := w.sight.named(k, &analyze.Literal{Start: c.Literal.Start, Text: name}); p != nil {
			return p
		}
	}
	return nil
}
