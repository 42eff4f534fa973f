package sqlgov

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"interlock/audit"
	"interlock/redact"
	"interlock/sqlgov/policy"
)

// resultFormats are the format codes of a result as Bind has them (PostgreSQL manual, "Message Formats"): none is text
// for all columns, one is for all, else there is one for each.
type resultFormats []redact.Format

// of returns the format of a column.
func (f resultFormats) of(column int) (redact.Format, error) {
	switch {
	case len(f) == 0:
		return redact.TextFormat, nil
	case len(f) == 1:
		return f[0], nil
	case column < len(f):
		return f[column], nil
	}
	return 0, errors.New("the formats of the result are not known")
}

// formatsOf are those that a description shows.
func formatsOf(fields []Field) resultFormats {
	formats := make(resultFormats, len(fields))
	for i := range fields {
		if fields[i].Binary {
			formats[i] = redact.BinaryFormat
		}
	}
	return formats
}

// formats reads the codes of the result at the end of a Bind message. What is not well formed has one that no mask knows:
// the server refuses the message.
func (f bindFrame) formats() resultFormats {
	r := frameReader{rest: f}
	r.take(5)
	r.text()
	r.text()
	r.take(2 * r.int16())
	for n := r.int16(); n > 0 && !r.bad; n-- {
		r.take(max(0, r.int32()))
	}
	n := r.int16()
	if r.bad || len(r.rest) != 2*n {
		return resultFormats{-1}
	}
	if n == 0 {
		return nil
	}
	formats := make(resultFormats, n)
	for i := range formats {
		formats[i] = redact.Format(r.int16())
	}
	return formats
}

// maskCache keeps the compiled masks of a decision by result shape. A decision has few shapes: one for each statement of
// the text and combination of formats.
type maskCache struct {
	mu   sync.Mutex
	rows map[string]*redact.Row
}

// maxShapes bounds the shapes that are kept.
const maxShapes = 8

// masks reports if something of the results may have to be masked.
func (a *admission) masks() bool {
	return a.decision != nil && len(a.decision.Obligations.Masks)+len(a.decision.Obligations.Content) > 0
}

// masksFor returns the masks of a statement's result in the given formats; nil if nothing of it is masked.
func (a *admission) masksFor(statement int, formats resultFormats) (*redact.Row, error) {
	if !a.masks() {
		return nil, nil
	}
	cache, key := &a.decision.compiled, fmt.Sprint(statement, formats)
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if row := cache.rows[key]; row != nil {
		return row, nil
	}
	row, err := a.compileMasks(statement, formats)
	if err != nil || row == nil {
		return nil, err
	}
	if cache.rows == nil || len(cache.rows) >= maxShapes {
		cache.rows = make(map[string]*redact.Row)
	}
	cache.rows[key] = row
	return row, nil
}

func (a *admission) compileMasks(statement int, formats resultFormats) (*redact.Row, error) {
	if statement >= len(a.judged.facts.Statements) {
		return nil, errors.New("a result that was not predicted")
	}
	columns := make([]*redact.Masker, len(a.judged.facts.Statements[statement].Output))
	found := false
	for i := range a.decision.Obligations.Masks {
		out := &a.decision.Obligations.Masks[i]
		if out.Statement != statement {
			continue
		}
		found = true
		columns[out.Output] = redact.Hidden
		if out.Mask == nil {
			continue
		}
		format, err := formats.of(out.Output)
		if err != nil {
			return nil, err
		}
		key, err := a.core.maskKey(out.Mask, a.source)
		if err != nil {
			return nil, err
		}
		if columns[out.Output], err = redact.Compile(&out.Mask.Spec, out.Type, format, key); err != nil {
			return nil, err
		}
	}
	detects, err := a.detect(statement, formats, columns)
	if err != nil || !found && !detects {
		return nil, err
	}
	return redact.NewRow(columns), nil
}

// detect has content looked for in the columns of a result, and in what masks of documents leave of them.
func (a *admission) detect(statement int, formats resultFormats, columns []*redact.Masker) (detects bool, err error) {
	must := &a.decision.Obligations
	kinds := must.ContentKinds
	if len(kinds) == 0 {
		kinds = redact.Contents[:]
	}
	for i := range must.Content {
		out := &must.Content[i]
		if out.Statement != statement || a.maskedWhole(statement, out.Output) {
			continue
		}
		format, err := formats.of(out.Output)
		if err != nil {
			return false, err
		}
		if d := redact.Detector(kinds, out.Report, out.Type, format); d != nil {
			columns[out.Output] = columns[out.Output].Then(d)
			detects = true
		}
	}
	return detects, nil
}

// maskedWhole reports if nothing of a column's own text is shown.
func (a *admission) maskedWhole(statement, output int) bool {
	for i := range a.decision.Obligations.Masks {
		if out := &a.decision.Obligations.Masks[i]; out.Statement == statement && out.Output == output {
			return out.Mask == nil || out.Mask.Kind != redact.JSON
		}
	}
	return false
}

// contentStatistics says for the audit log what was found.
func (a *admission) contentStatistics() []audit.Found {
	var all []audit.Found
	for i, n := range a.found {
		if n > 0 {
			all = append(all, audit.Found{Kind: string(redact.Contents[i]), Values: n})
		}
	}
	return all
}

// maskKey is the key of a mask on a source; nil if the mask has none.
func (c *Core) maskKey(m *policy.MaskSpec, source string) ([]byte, error) {
	if !m.Keyed() {
		return nil, nil
	}
	if c.Secret == nil {
		return nil, errors.New("there are no secrets")
	}
	secret, err := c.Secret(m.Key)
	if err != nil {
		return nil, fmt.Errorf("the key of mask %s: %w", m.Name, err)
	}
	if secret == "" {
		return nil, fmt.Errorf("the key of mask %s is empty", m.Name)
	}
	return redact.DeriveKey([]byte(secret), source), nil
}

// unmaskable is the refusal for a result that could not be masked. The cause holds no value.
func (a *admission) unmaskable(err error) *Refusal {
	a.core.Log.Error().Err(err).Str("source", a.source).Str("decision", a.id).Msg("masking")
	return &Refusal{Kind: Internal, SQLState: "XX000", DecisionID: a.id, Err: err,
		Message: "a value could not be masked, so the rest of the result is withheld",
		Hint:    "Masked dates can be read under DateStyle ISO only. If that is not it, tell your administrator."}
}

// mask returns a row as the client may see it. If it cannot be masked, the statement is stopped and nothing is shown.
func (s *Session) mask(o *op, frame []byte) (masked []byte, ok bool) {
	var err error
	if o.masksOf != o.statement+1 {
		if o.masks, err = o.run.masksFor(o.statement, o.formats); err == nil {
			o.masksOf = o.statement + 1
		}
	}
	if err == nil && o.masks == nil {
		return frame, true
	}
	if err == nil {
		s.masked, err = o.masks.AppendDataRow(s.masked[:0], frame, &o.run.found)
	}
	if err != nil {
		s.withhold(o, err)
		return nil, false
	}
	o.run.maskedRows++
	return s.masked, true
}

// withhold stops a statement whose result cannot be masked.
func (s *Session) withhold(o *op, err error) {
	o.stopped = o.run.unmaskable(err)
	s.Cancel(context.Background())
}

// copyMasks returns the masks for the data of a COPY; nil if nothing of it is masked.
func (a *admission) copyMasks(statement int) (*redact.CopyStream, error) {
	if !a.masks() {
		return nil, nil
	}
	form, err := policy.FormOf(&a.judged.facts.Statements[statement])
	if err != nil {
		return nil, err
	}
	var formats resultFormats
	if form.Binary {
		formats = resultFormats{redact.BinaryFormat}
	}
	row, err := a.masksFor(statement, formats)
	if err != nil || row == nil {
		return nil, err
	}
	masks, err := row.Copy(form)
	if err != nil {
		return nil, err
	}
	return masks.Stream(&a.found), nil
}

// maskCopy masks a piece of data of a COPY.
func (s *Session) maskCopy(o *op, frame []byte) (Output, bool) {
	masked, rows, err := o.copy.masks.Append(append(s.masked[:0], frame[:messageHeader]...), frame[messageHeader:])
	s.masked = masked
	if err != nil {
		s.withhold(o, err)
		return Output{}, false
	}
	if !s.row(o, len(masked), rows) || len(masked) == messageHeader {
		return Output{}, false
	}
	binary.BigEndian.PutUint32(masked[1:], uint32(len(masked)-1))
	o.bytes += int64(len(masked))
	o.rows += rows
	o.run.maskedRows += rows
	return Output{Frame: masked}, true
}

// mask masks a row in text format in place.
func (c *collector) mask(values [][]byte) error {
	if c.masks == nil {
		return nil
	}
	if err := c.masks.Values(values, &c.a.found); err != nil {
		return errWithheld{c.a.unmaskable(err)}
	}
	c.a.maskedRows++
	return nil
}

// maskOf names the mask of a column of the first statement's result; "" if it has none.
func (a *admission) maskOf(column int) string {
	for i := range a.obligations().Masks {
		if out := &a.decision.Obligations.Masks[i]; out.Statement == 0 && out.Output == column {
			return out.With
		}
	}
	return ""
}

// witnessMasks holds the described types of masked columns against those that the masks were made for.
func (a *admission) witnessMasks(statement int, fields []Field) *Refusal {
	for i := range a.obligations().Masks {
		out := &a.decision.Obligations.Masks[i]
		if out.Statement == statement && out.Mask != nil && uint32(fields[out.Output].Type) != out.Type.OID {
			return disagreement("column %d of type %d, for which its mask was not made", out.Output+1, fields[out.Output].Type)
		}
	}
	return nil
}

// maskStatistics says for the audit log what was masked.
func (a *admission) maskStatistics() []audit.Masked {
	if a.maskedRows == 0 {
		return nil
	}
	var all []audit.Masked
	for _, out := range a.obligations().Masks {
		all = append(all, audit.Masked{Mask: out.With, Columns: out.Columns, Values: a.maskedRows})
	}
	return all
}

// keepData refuses to write, by a parameter, what a mask shows in the place of the data behind it.
func (c *Core) keepData(_ context.Context, a *admission) *Refusal {
	guarded := a.obligations().Guarded
	if len(guarded) == 0 || a.bound == nil {
		return nil
	}
	values := a.bound.decode()
	for _, g := range guarded {
		if g.Param > len(values) {
			continue
		}
		if text, ok := values[g.Param-1].(string); ok && g.Mask.Placeholder(text) {
			return &Refusal{Kind: Denied, SQLState: "42501",
				Message: fmt.Sprintf("the value for column %q of table %q is what its mask shows", g.Column.Name, g.Column.Schema+"."+g.Column.Table),
				Hint:    "Leave the column out: the data behind the mask would be lost."}
		}
	}
	return nil
}

// holdsNoValue reports if the message of an error cannot quote a value: errors of resources, of the connection, of
// concurrency and of the transaction's state.
func holdsNoValue(sqlstate string) bool {
	for _, class := range [...]string{"08", "25", "40", "53", "55", "57"} {
		if strings.HasPrefix(sqlstate, class) {
			return true
		}
	}
	return false
}
