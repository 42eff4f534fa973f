package store

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"interlock/audit"
)

// An index that is apart from the logs has what a record says. The texts of chunkRows rows of a block stand in a chunk: for each
// row the excerpts of its record and of its outcome, with their lengths as varints before them, all compressed (RFC 1951).
const (
	chunkRows    = 128
	maxBlockText = 16 << 20 // a block with so many bytes of texts is full
	maxChunkText = 4 * maxBlockText
)

// rowText is the excerpts of a row; outcome is empty if there is none.
type rowText struct {
	record, outcome []byte
	written         bool
}

// textWriter keeps the texts of the block under way. A nil one keeps nothing.
type textWriter struct {
	bytes   int // of the block under way
	deflate *flate.Writer
	plain   []byte
	packed  bytes.Buffer
}

func (t *textWriter) full() bool { return t != nil && t.bytes >= maxBlockText }

// sealed says that the next row begins a block.
func (t *textWriter) sealed() {
	if t != nil {
		t.bytes = 0
	}
}

// record takes the entry that a row is made of.
func (t *textWriter) record(r *indexRow, e *audit.Entry) {
	if t == nil {
		return
	}
	r.text = &rowText{record: e.Excerpt()}
	t.bytes += len(r.text.record)
}

// outcome takes the outcome of a row.
func (t *textWriter) outcome(r *indexRow, e *audit.Entry) {
	if t == nil {
		return
	}
	if r.text == nil { // it was written when its block was full
		r.text = &rowText{}
	}
	r.text.outcome, r.text.written = e.Excerpt(), false
	t.bytes += len(r.text.outcome)
}

// loosen writes the record of a request that is still running when its block is full.
func (t *textWriter) loosen(w *indexWriter, r *indexRow) error {
	if t == nil {
		return nil
	}
	record := r.text.record
	r.text = nil
	return w.exec("insert into loose_text values (?, ?, ?, ?)", w.part, r.seq, record, []byte{})
}

// ended writes the outcome of such a request.
func (t *textWriter) ended(w *indexWriter, r *indexRow) error {
	if t == nil || r.text == nil {
		return nil
	}
	return w.exec("update loose_text set outcome = ? where part = ? and seq = ?", r.text.outcome, w.part, r.seq)
}

// moved says that the rows of the block under way have other places than before.
func (t *textWriter) moved(w *indexWriter) error {
	if t == nil {
		return nil
	}
	for i := range w.rows {
		w.rows[i].text.written = false
	}
	return w.exec("delete from chunk where part = ? and first = ?", w.part, w.sealed.Seq+1)
}

// write writes the chunks of the block under way that have changed.
func (t *textWriter) write(w *indexWriter, first uint64) error {
	if t == nil {
		return nil
	}
	for from := 0; from < len(w.rows); from += chunkRows {
		rows := w.rows[from:min(from+chunkRows, len(w.rows))]
		changed := false
		for i := range rows {
			changed = changed || !rows[i].text.written
			rows[i].text.written = true
		}
		if !changed {
			continue
		}
		if err := t.pack(rows); err != nil {
			return err
		}
		err := w.exec("insert into chunk values (?, ?, ?, ?) on conflict (part, first, number) do update set texts = excluded.texts",
			w.part, first, from/chunkRows, t.packed.Bytes())
		if err != nil {
			return err
		}
	}
	return nil
}

// flushed notes when the part was written last.
func (t *textWriter) flushed(w *indexWriter) error {
	if t == nil {
		return nil
	}
	return w.exec("update part set written = now() where id = ?", w.part)
}

// pack makes a chunk.
func (t *textWriter) pack(rows []indexRow) (err error) {
	t.plain = t.plain[:0]
	for i := range rows {
		for _, text := range [][]byte{rows[i].text.record, rows[i].text.outcome} {
			t.plain = append(binary.AppendUvarint(t.plain, uint64(len(text))), text...)
		}
	}
	t.packed.Reset()
	if t.deflate == nil {
		if t.deflate, err = flate.NewWriter(&t.packed, flate.BestSpeed); err != nil {
			return err
		}
	}
	t.deflate.Reset(&t.packed)
	_, err = t.deflate.Write(t.plain)
	return errors.Join(err, t.deflate.Close())
}

// judgement writes what a shape stands for.
func (t *textWriter) judgement(w *indexWriter, shape int64, members []byte) error {
	if t == nil {
		return nil
	}
	return w.exec("insert into judgement values (?, ?)", shape, append([]byte{}, members...))
}

// unpack takes a chunk apart.
func unpack(packed []byte) (texts [][]byte, err error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxChunkText+1))
	if err != nil || len(plain) > maxChunkText {
		return nil, errDamaged
	}
	for r := (numbers{rest: plain}); len(r.rest) > 0; {
		n := r.next()
		if r.bad || n > uint64(len(r.rest)) {
			return nil, errDamaged
		}
		texts = append(texts, r.rest[:n])
		r.rest = r.rest[n:]
	}
	return texts, nil
}

// keptTexts reads requests of a part from an index that has their texts.
type keptTexts struct {
	db         queryer
	part       int64
	node       string
	judgements map[int64]*audit.Judgement

	first  uint64 // of the chunk that was read last
	number int
	texts  [][]byte
}

const maxJudgements = 1000

// read returns a request. Errors other than of the database are errDamaged.
func (k *keptTexts) read(ctx context.Context, f *found) (audit.View, error) {
	record, outcome, err := k.excerpts(ctx, f)
	if err != nil {
		return audit.View{}, err
	}
	v, err := audit.DecodeExcerpt(record, outcome)
	if err != nil {
		return v, fmt.Errorf("%w: request %d", errDamaged, f.seq)
	}
	v.Node = k.node
	v.Judgement, err = k.judgement(ctx, f.shape)
	return v, err
}

func (k *keptTexts) place(ctx context.Context) (part int64, pruned uint64, err error) {
	m, err := markOf(ctx, k.db, k.part, "pruned")
	return k.part, m.Seq, err
}

func (k *keptTexts) close() error { return nil }

func (k *keptTexts) excerpts(ctx context.Context, f *found) (record, outcome []byte, err error) {
	if f.row < 0 {
		err = k.db.QueryRowContext(ctx, "select record, outcome from loose_text where part = ? and seq = ?", k.part, f.seq).Scan(&record, &outcome)
		return record, outcome, missingIsDamage(err)
	}
	if number := f.row / chunkRows; k.texts == nil || k.first != f.first || k.number != number {
		var packed []byte
		err = k.db.QueryRowContext(ctx, "select texts from chunk where part = ? and first = ? and number = ?", k.part, f.first, number).Scan(&packed)
		if err = missingIsDamage(err); err == nil {
			k.texts, err = unpack(packed)
		}
		if err != nil {
			return nil, nil, err
		}
		k.first, k.number = f.first, number
	}
	i := 2 * (f.row % chunkRows)
	if i+1 >= len(k.texts) {
		return nil, nil, errDamaged
	}
	return k.texts[i], k.texts[i+1], nil
}

func missingIsDamage(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return errDamaged
	}
	return err
}

// judgement returns what a shape stands for; nil if that is nothing.
func (k *keptTexts) judgement(ctx context.Context, shape int64) (*audit.Judgement, error) {
	if j, ok := k.judgements[shape]; ok {
		return j, nil
	}
	var members []byte
	err := k.db.QueryRowContext(ctx, "select members from judgement where shape = ?", shape).Scan(&members)
	if err = missingIsDamage(err); err != nil {
		return nil, err
	}
	var j *audit.Judgement
	if len(members) > 0 {
		if j, err = audit.DecodeJudgement(members); err != nil {
			return nil, errDamaged
		}
	}
	if k.judgements == nil || len(k.judgements) >= maxJudgements {
		k.judgements = map[int64]*audit.Judgement{}
	}
	k.judgements[shape] = j
	return j, nil
}
