package policy

import (
	"errors"
	"fmt"
	"slices"

	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/analyze"
)

// MaskedOutput is a result column that is masked.
type MaskedOutput struct {
	Statement int    `json:"statement"` // index in the text
	Output    int    `json:"output"`    // index among the statement's result columns
	Name      string `json:"name"`      // of the result column
	// Mask is the mask that the values get; nil hides them whole, because they are computed from masked ones, or because
	// several masks meet.
	Mask *MaskSpec   `json:"-"`
	Type redact.Type `json:"-"`
	With string      `json:"with"` // name of the mask, or "null"
	// Columns are the masked columns behind it: schema.table.column.
	Columns []string `json:"columns"`
}

// GuardedParam is a parameter that a statement writes into a masked column: it must not be what the mask shows.
type GuardedParam struct {
	Param  int
	Mask   *MaskSpec
	Column analyze.Column
}

// hiddenWhole is what With says when there is no mask.
const hiddenWhole = "null"

// exposure is what a value tells of one masked column.
type exposure struct {
	rule *maskRule
	rel  *catalog.Relation
	col  *catalog.Column
	how  analyze.How
	// seen is the column as the statement reaches it, which may be that of a view.
	seen analyze.Column
}

func (e *exposure) name() string { return TableName(e.rel) + "." + quoteIdent(e.col.Name) }

// masking finds what masks mean for a decision.
type masking struct {
	rules []*maskRule
	ix    *catalog.Index
	made  *Decision
}

// mask obliges to the masks of the roles and of the policies that were met, and turns down statements that do with masked
// columns what their masks do not allow. Without masks it does nothing.
func (d *Decision) mask(r *Ruleset, in *Input) {
	if len(d.Denied) > 0 {
		return
	}
	m := masking{ix: in.Catalog, made: d}
	if set := r.grants[grantKey{in.Identity, in.Source}]; set != nil {
		m.rules = append(m.rules, set.masks...)
	}
	for i := range d.Reasons {
		if p := d.Reasons[i].Policy; p != nil && p.State == Active && p.Error == "" {
			if rule := r.policies.masks[p.Policy]; rule != nil {
				m.rules = append(m.rules, rule)
			}
		}
	}
	if len(m.rules) == 0 {
		return
	}
	d.Obligations.Masks, d.Obligations.Guarded, d.exposed = nil, nil, nil
	for i := range in.Facts.Statements {
		m.statement(i, &in.Facts.Statements[i])
	}
}

// maskable are the kinds of statement whose results can be masked.
var maskable = []analyze.Kind{analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Merge, analyze.Prepare, analyze.Execute,
	analyze.Fetch, analyze.CopyOut}

func (m *masking) statement(index int, s *analyze.Statement) {
	if !m.made.WithholdAll && m.inScope(s) {
		m.made.WithholdDetail, m.made.WithholdAll = true, true
	}
	for i := range s.Output {
		exposed := m.exposures(s.Output[i].Sources)
		if len(exposed) == 0 {
			continue
		}
		m.reasons(exposed)
		if !slices.Contains(maskable, s.Kind) {
			m.shown(&exposed[0], s.Kind)
		}
		if out := m.output(&s.Output[i], exposed); out != nil {
			if s.Kind == analyze.CopyOut && out.Mask != nil {
				m.copies(&exposed[0], s)
			}
			out.Statement, out.Output = index, i
			m.made.Obligations.Masks = append(m.made.Obligations.Masks, *out)
		}
	}
	m.writes(s)
	m.uses(s)
}

// shown turns down a statement whose result tells of a masked column and cannot be masked.
func (m *masking) shown(e *exposure, k analyze.Kind) {
	if k != analyze.Explain {
		m.object(e, "and this kind of statement would show it", selectThem)
		return
	}
	m.object(e, "and EXPLAIN would show it", "EXPLAIN (COSTS OFF) shows the plan without what is known of the values.")
}

// copies turns down a COPY in which a value that is chosen by the caller looks like NULL: NULL is not masked, so it would
// show where that value is.
func (m *masking) copies(e *exposure, s *analyze.Statement) {
	if form, err := FormOf(s); err != nil || !form.TellsNull() {
		m.object(e, "and cannot be copied with a NULL string that looks like a value", "Leave the NULL string as it is, or use the format csv.")
	}
}

// FormOf is the form of a COPY for the masks of its data. What the server is going to refuse is an error.
func FormOf(s *analyze.Statement) (redact.CopyForm, error) {
	f := s.Form
	if f == nil || f.Format != "text" && f.Format != "csv" && f.Format != "binary" {
		return redact.CopyForm{}, errors.New("the form of COPY is not known")
	}
	form := redact.CopyForm{Binary: f.Format == "binary", CSV: f.Format == "csv", Header: f.Header, Null: *f.Null}
	for _, c := range [...]struct {
		to   *byte
		from string
	}{{&form.Delimiter, f.Delimiter}, {&form.Quote, f.Quote}, {&form.Escape, f.Escape}} {
		if len(c.from) > 1 {
			return redact.CopyForm{}, errors.New("a delimiter of COPY is more than a character")
		}
		if len(c.from) == 1 {
			*c.to = c.from[0]
		}
	}
	for i := range s.Output {
		form.Quoted = append(form.Quoted, slices.Contains(f.ForceQuote, s.Output[i].Name) || slices.Contains(f.ForceQuote, analyze.EveryColumn))
	}
	return form, nil
}

// inScope reports if a statement touches a relation that has a masked column: an error could show its values.
func (m *masking) inScope(s *analyze.Statement) bool {
	touches := func(oid catalog.OID) bool {
		rel := m.ix.Relation(oid)
		return rel == nil || rel.Kind == catalog.View || slices.ContainsFunc(m.rules, func(rule *maskRule) bool { return rule.reaches(m.ix, rel) })
	}
	return slices.ContainsFunc(s.Reads, func(c analyze.Column) bool { return touches(c.Relation) }) ||
		slices.ContainsFunc(s.Writes, func(w analyze.Write) bool { return touches(w.Column.Relation) })
}

// exposures lists what a value tells of masked columns.
func (m *masking) exposures(sources []analyze.Source) []exposure {
	var all []exposure
	for i := range sources {
		for _, rule := range m.rules {
			all = m.follow(all, rule, &sources[i], exposure{rule: rule, how: sources[i].How, seen: sources[i].Column})
		}
	}
	return all
}

// follow goes from a column to what is behind it, until the rule covers it or makes an exception.
func (m *masking) follow(all []exposure, rule *maskRule, s *analyze.Source, e exposure) []exposure {
	rel := m.ix.Relation(s.Relation)
	if rel == nil || s.Num <= 0 {
		return all
	}
	col := columnNumbered(rel, s.Num)
	if col == nil || rule.spares(rel, col.Name) {
		return all
	}
	if rule.covers(m.ix, rel, col.Name) {
		e.rel, e.col = rel, col
		return append(all, e)
	}
	for i := range s.Behind {
		behind := e
		behind.how = max(e.how, s.Behind[i].How)
		all = m.follow(all, rule, &s.Behind[i], behind)
	}
	return all
}

// output says how a result column is masked, or nil if nothing of it has to be.
func (m *masking) output(o *analyze.Output, exposed []exposure) *MaskedOutput {
	out := &MaskedOutput{Name: o.Name, With: hiddenWhole}
	harmless := true
	for i := range exposed {
		e := &exposed[i]
		harmless = harmless && e.how == analyze.Counted && e.rule.mask.countable()
		if name := e.name(); !slices.Contains(out.Columns, name) {
			out.Columns = append(out.Columns, name)
		}
	}
	if harmless {
		return nil
	}
	first := &exposed[0]
	for i := range exposed {
		if e := &exposed[i]; e.how != analyze.Kept || e.rule.mask != first.rule.mask || e.col.Type != o.Type || e.col.TypeMod != first.col.TypeMod {
			return out
		}
	}
	typ := MaskType(m.ix, o.Type, first.col.TypeMod)
	if first.rule.mask.Fits(typ) == nil {
		out.Mask, out.Type, out.With = first.rule.mask, typ, first.rule.mask.Name
	}
	return out
}

func (m *MaskSpec) countable() bool { return m.Countable || m.Filterable }

// uses turns down what is done with masked columns and their masks do not allow.
func (m *masking) uses(s *analyze.Statement) {
	exposed := m.exposures(s.Uses)
	m.reasons(exposed)
	for i := range exposed {
		switch e := &exposed[i]; {
		case e.rule.mask.Filterable, e.how == analyze.Counted && e.rule.mask.Countable:
		case e.how == analyze.Counted:
			m.object(e, "and may not be counted or tested for NULL", notCompared)
		default:
			m.object(e, "and cannot be used here", notCompared)
		}
	}
}

// writes turns down statements that store masked values, or the mask itself in the place of values.
func (m *masking) writes(s *analyze.Statement) {
	for _, e := range m.exposures(s.Stored) {
		m.object(&e, "and cannot be written anywhere", selectThem)
	}
	for i := range s.Assigned {
		a := &s.Assigned[i]
		for _, e := range m.exposures([]analyze.Source{{Column: a.Column}}) {
			if a.Param > 0 {
				m.made.Obligations.Guarded = append(m.made.Obligations.Guarded, GuardedParam{a.Param, e.rule.mask, a.Column})
			} else if e.rule.mask.Placeholder(a.Text) {
				m.made.object(&maskObjection{
					message: fmt.Sprintf("the value for column %q of table %q is what its mask shows", e.col.Name, e.rel.Schema+"."+e.rel.Name),
					hint:    "Leave the column out: the data behind the mask would be lost."})
			}
		}
	}
}

// reasons says which masks took part.
func (m *masking) reasons(exposed []exposure) {
	for i := range exposed {
		e := &exposed[i]
		r := Reason{Granted: true, Mask: e.rule.With, Role: e.rule.role, Line: e.rule.line(),
			Need: Need{Action: TableSelect, Schema: e.rel.Schema, Object: e.rel.Name, Column: e.col.Name, Relation: e.rel.OID, Num: e.col.Num}}
		if p := e.rule.policy; p != nil {
			r.Note = fmt.Sprintf("masked by policy %q", p.Name)
		}
		if !slices.Contains(m.made.Reasons, r) {
			m.made.Reasons = append(m.made.Reasons, r)
		}
	}
}

// maskObjection is why a statement is turned down for the sake of masked columns.
type maskObjection struct{ message, hint string }

const (
	selectThem  = "Masked columns can be selected as they are."
	notCompared = "Masked columns can be selected as they are, but not compared, sorted, grouped, joined on or computed with."
)

// object turns a statement down. The column is named as the statement reaches it, which the caller may read.
func (m *masking) object(e *exposure, why, hint string) {
	m.made.object(&maskObjection{fmt.Sprintf("column %q of table %q is masked %s", e.seen.Name, e.seen.Schema+"."+e.seen.Table, why), hint})
	for i := range m.made.Reasons {
		if r := &m.made.Reasons[i]; r.Mask == e.rule.With && r.Need.Relation == e.rel.OID && r.Need.Num == e.col.Num {
			r.Granted = false
		}
	}
}

func (d *Decision) object(o *maskObjection) {
	if d.exposed == nil {
		d.exposed = o
	}
}
