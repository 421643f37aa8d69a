package calib

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"qwb/internal/shard"
	"qwb/observers"
)

// The file of Gram statistics is canonical. Numbers are unsigned varints, strings and blobs are preceded by their length.
//
//	magic "qwbgram" and the version as a byte
//	head (a blob): model, preprocessing, hash of the range statistics; shard, shards; samples of the whole set, samples seen; how many
//	hashes of samples that are in the sums, the hashes, ascending; how many operators
//	SHA-256 of the head
//	of each operator, in graph order: name, moments (observers.Gram), SHA-256 of both
const (
	gramMagic   = "qwbgram"
	gramVersion = 1
)

// ErrGramDamaged is returned for files that are no Gram statistics or were changed.
var ErrGramDamaged = errors.New("not a file of Gram statistics, or a damaged one")

// GramHead says what the moments of a file are of.
type GramHead struct {
	Model, Preprocess string
	Ranges            string // Stats.RangesHash of the statistics that the fixed points were taken from
	Shard, Shards     int    // part Shard (from 1) of Shards; a whole is 1 of 1
	Total             int    // samples of the whole set, held-out ones too
	Seen              int    // of them in this file
	Summed            []Hash // of them in the sums, sorted
	Operators         int
}

// Alike reports why two files cannot be parts of one run; nil where they can.
func (h *GramHead) Alike(o *GramHead) error {
	switch {
	case h.Model != o.Model:
		return fmt.Errorf("it is of another model (%.12s..., not %.12s...)", o.Model, h.Model)
	case h.Preprocess != o.Preprocess:
		return fmt.Errorf("its samples were preprocessed differently (%s, not %s)", o.Preprocess, h.Preprocess)
	case h.Ranges != o.Ranges:
		return fmt.Errorf("its fixed points are of other range statistics (%.12s..., not %.12s...)", o.Ranges, h.Ranges)
	case h.Shards != o.Shards || h.Total != o.Total:
		return fmt.Errorf("it is one of %d parts of %d samples, not of %d parts of %d", o.Shards, o.Total, h.Shards, h.Total)
	}
	return nil
}

func (h *GramHead) append() []byte {
	b := appendBlob(appendBlob(appendBlob(nil, h.Model), h.Preprocess), h.Ranges)
	for _, n := range []int{h.Shard, h.Shards, h.Total, h.Seen, len(h.Summed)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, x := range h.Summed {
		b = append(b, x[:]...)
	}
	return binary.AppendUvarint(b, uint64(h.Operators))
}

// WriteGrams writes a file. ops calls its argument for each operator, as many as the head says, in graph order.
func WriteGrams(w io.Writer, h *GramHead, ops func(put func(node string, g *observers.Gram) error) error) error {
	head := h.append()
	sum := sha256.Sum256(head)
	if _, err := w.Write(append(appendBlob(append([]byte(gramMagic), gramVersion), head), sum[:]...)); err != nil {
		return err
	}
	return ops(func(node string, g *observers.Gram) error {
		x, err := g.MarshalBinary()
		if err != nil {
			return err
		}
		name := appendBlob(nil, node)
		s := sha256.New()
		for _, part := range [][]byte{name, binary.AppendUvarint(nil, uint64(len(x))), x} {
			s.Write(part)
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		_, err = w.Write(s.Sum(nil))
		return err
	})
}

// GramFile reads a file of Gram statistics, one operator at a time.
type GramFile struct {
	GramHead
	Nodes []string // in graph order

	r  io.ReaderAt
	at map[string]span
}

// span is where the moments of an operator are, and the checksum behind them.
type span struct{ begin, moments, end int64 }

// OpenGrams reads the head and finds the operators. Memory is bounded by the size of the head.
func OpenGrams(r io.ReaderAt, size int64) (*GramFile, error) {
	f := &GramFile{r: r, at: map[string]span{}}
	prefix, err := f.bytes(0, min(size, int64(len(gramMagic)+1+binary.MaxVarintLen64)))
	if err != nil || len(prefix) < len(gramMagic)+1 || string(prefix[:len(gramMagic)]) != gramMagic {
		return nil, ErrGramDamaged
	}
	if v := prefix[len(gramMagic)]; v != gramVersion {
		return nil, fmt.Errorf("gram statistics of version %d; this program knows version %d", v, gramVersion)
	}
	n, used := binary.Uvarint(prefix[len(gramMagic)+1:])
	at := int64(len(gramMagic) + 1 + used)
	if used <= 0 || n > uint64(max(size-at-sha256.Size, 0)) || n > math.MaxInt32 {
		return nil, ErrGramDamaged
	}
	head, err := f.bytes(at, int64(n)+sha256.Size)
	if err != nil {
		return nil, ErrGramDamaged
	}
	at += int64(len(head))
	sum := sha256.Sum256(head[:n])
	if !bytes.Equal(sum[:], head[n:]) || !f.parse(head[:n]) {
		return nil, ErrGramDamaged
	}
	for range f.Operators {
		s := span{begin: at}
		name, next, ok := f.blob(at, size, true)
		if !ok || f.at[string(name)] != (span{}) {
			return nil, ErrGramDamaged
		}
		_, end, ok := f.blob(next, size, false)
		if s.moments, s.end, at = next, end, end+sha256.Size; !ok || at > size {
			return nil, ErrGramDamaged
		}
		f.Nodes, f.at[string(name)] = append(f.Nodes, string(name)), s
	}
	if at != size {
		return nil, ErrGramDamaged
	}
	return f, nil
}

func (f *GramFile) bytes(at, n int64) ([]byte, error) {
	b := make([]byte, n)
	if m, err := f.r.ReadAt(b, at); m < len(b) {
		return nil, err
	}
	return b, nil
}

// blob finds what is preceded by its length at a place, and where it ends; want says whether it is read.
func (f *GramFile) blob(at, size int64, want bool) (content []byte, end int64, ok bool) {
	b, err := f.bytes(at, min(binary.MaxVarintLen64, max(size-at, 0)))
	if err != nil {
		return nil, 0, false
	}
	n, used := binary.Uvarint(b)
	at += int64(used)
	if used <= 0 || n > uint64(max(size-at, 0)) {
		return nil, 0, false
	}
	if want {
		if content, err = f.bytes(at, int64(n)); err != nil || len(content) == 0 {
			return nil, 0, false
		}
	}
	return content, at + int64(n), true
}

// parse reads the head; false where it is not one in canonical form.
func (f *GramFile) parse(b []byte) bool {
	d := &reader{b: b}
	f.Model, f.Preprocess, f.Ranges = string(d.blob()), string(d.blob()), string(d.blob())
	for _, to := range []*int{&f.Shard, &f.Shards, &f.Total, &f.Seen} {
		*to = int(min(d.uint(), math.MaxInt32))
	}
	for range d.count(len(Hash{})) {
		f.Summed = append(f.Summed, d.hash())
	}
	f.Operators = int(min(d.uint(), math.MaxInt32))
	return d.err == nil && len(d.b) == 0 && bytes.Equal(b, f.append()) && slices.IsSortedFunc(f.Summed, compareHashes) &&
		f.Shard >= 1 && f.Shard <= f.Shards && f.Seen <= f.Total && len(f.Summed) <= f.Seen
}

// Has reports whether the file has moments of an operator.
func (f *GramFile) Has(node string) bool { return f.at[node] != (span{}) }

// Gram reads the moments of an operator; nil where the file has none of it.
func (f *GramFile) Gram(node string) (*observers.Gram, error) {
	s, ok := f.at[node]
	if !ok {
		return nil, nil
	}
	b, err := f.bytes(s.begin, s.end+sha256.Size-s.begin)
	if err != nil {
		return nil, err
	}
	body := b[:s.end-s.begin]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, ErrGramDamaged
	}
	_, used := binary.Uvarint(body[s.moments-s.begin:])
	g := new(observers.Gram)
	if err := g.UnmarshalBinary(body[s.moments-s.begin+int64(used):]); err != nil {
		return nil, fmt.Errorf("operator %q: %w", node, err)
	}
	return g, nil
}

// sameRun says why o is no part of the same run as f; nil where it is.
func (f *GramFile) sameRun(o *GramFile) error {
	if err := f.Alike(&o.GramHead); err != nil {
		return err
	}
	if !slices.Equal(f.Nodes, o.Nodes) {
		return errors.New("it has other operators")
	}
	return nil
}

// MergeGrams writes what one run over the samples of all parts gives: every part of one run, in any order. names are for errors.
func MergeGrams(w io.Writer, names []string, parts []*GramFile) error {
	if len(parts) == 0 {
		return errors.New("merge: no parts")
	}
	first := parts[0]
	whole := first.GramHead
	whole.Shard, whole.Shards, whole.Seen, whole.Summed = 1, 1, 0, nil
	have := make([]string, first.Shards+1)
	for i, p := range parts {
		if first.sameRun(p) != nil {
			return shard.Stranger(names, i, func(a, b int) error { return parts[a].sameRun(parts[b]) })
		}
		if other := have[p.Shard]; other != "" {
			return fmt.Errorf("merge: %s and %s are both part %d of %d", other, names[i], p.Shard, p.Shards)
		}
		have[p.Shard] = names[i]
		whole.Seen += p.Seen
		whole.Summed = append(whole.Summed, p.Summed...)
	}
	for i, name := range have[1:] {
		if name == "" {
			return fmt.Errorf("merge: part %d of %d is missing", i+1, first.Shards)
		}
	}
	if whole.Seen != whole.Total {
		return fmt.Errorf("merge: the parts hold %d samples, not %d", whole.Seen, whole.Total)
	}
	sortHashes(whole.Summed)
	return WriteGrams(w, &whole, func(put func(string, *observers.Gram) error) error {
		for _, node := range first.Nodes {
			var sum *observers.Gram
			for i, p := range parts {
				g, err := p.Gram(node)
				if err != nil {
					return fmt.Errorf("%s: %w", names[i], err)
				}
				if sum == nil {
					sum = g
				} else if err := sum.Merge(g); err != nil {
					return fmt.Errorf("merge: %s: operator %q: %w", names[i], node, err)
				}
			}
			if err := put(node, sum); err != nil {
				return err
			}
		}
		return nil
	})
}
