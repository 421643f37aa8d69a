package checkpoint

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/internal/arrange"
	"qwb/internal/file"
)

// Importance is an importance matrix of llama.cpp: what the inputs of matrices were on texts.
type Importance struct {
	Datasets          []string
	Chunks, ChunkSize uint32
	Entries           []InputSquares // in the order of their names
}

// InputSquares are sums over the inputs of one tensor, or of the experts that are stored as one.
type InputSquares struct {
	Name   string
	Sums   []float32 // of squares, by input, expert after expert
	Counts []float32 // how many inputs were summed, by expert
}

const (
	imatrixType   = "imatrix"
	imatrixSums   = ".in_sum2"
	imatrixCounts = ".counts"
	mostEntries   = 1 << 20
)

// Means are the mean squares of the k inputs of a part; nil where the matrix has nothing of it. An error says that it does not fit.
func (m *Importance) Means(p Part, k int) ([]float64, error) {
	name := GGUFName(p)
	at, ok := slices.BinarySearchFunc(m.Entries, name, func(e InputSquares, name string) int { return cmp.Compare(e.Name, name) })
	if !ok {
		return nil, nil
	}
	e := m.Entries[at]
	if len(e.Sums) != k*len(e.Counts) || p.Expert >= len(e.Counts) || len(e.Counts) > 1 && !p.Role.OfExpert() {
		return nil, fmt.Errorf("importance of %d inputs of %d matrices for %q, which has %d of each", len(e.Sums), len(e.Counts), name, k)
	}
	count := e.Counts[p.Expert]
	if count == 0 {
		return nil, nil
	}
	out := make([]float64, k)
	for i, v := range e.Sums[p.Expert*k:][:k] {
		out[i] = float64(v) / float64(count)
	}
	return out, nil
}

// Sort puts the entries into the order of their names.
func (m *Importance) Sort() {
	arrange.Stable(m.Entries, func(x, y InputSquares) int { return cmp.Compare(x.Name, y.Name) })
}

// ReadImportance reads llama-imatrix's file: GGUF with general.type imatrix, or the binary form before it. Sums that are negative or not
// finite, and tensors whose sums and counts do not fit together, are errors.
func ReadImportance(path string) (*Importance, error) {
	b, release, err := file.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }()
	read := readOldImportance
	if isGGUF(b) {
		read = readImportance
	}
	m, err := read(b)
	if err == nil {
		m.Sort()
		err = m.check()
	}
	if err != nil {
		return nil, &graph.FileError{Stage: "importance matrix", File: path, Err: err}
	}
	return m, nil
}

func readImportance(b []byte) (*Importance, error) {
	meta, list, err := parseGGUF(b)
	if err != nil {
		return nil, err
	}
	if kind := meta["general.type"]; kind != imatrixType {
		return nil, fmt.Errorf("a GGUF file with general.type %v, not %s", kind, imatrixType)
	}
	m := &Importance{}
	m.Chunks, _ = meta["imatrix.chunk_count"].(uint32)
	m.ChunkSize, _ = meta["imatrix.chunk_size"].(uint32)
	names, _ := meta["imatrix.datasets"].([]any)
	for _, v := range names {
		if s, ok := v.(string); ok {
			m.Datasets = append(m.Datasets, s)
		}
	}
	if list, ok := meta["imatrix.datasets"].([]string); ok {
		m.Datasets = list
	}
	numbers := map[string][]float32{}
	for _, t := range list {
		if ggufTypes[t.kind] != F32 || t.data == nil {
			return nil, fmt.Errorf("tensor %q is not float32", t.name)
		}
		numbers[t.name] = (&Tensor{Rows: 1, Cols: len(t.data) / 4, data: t.data}).All()
	}
	for _, t := range list { // in the order of the file, so that it is always the same fault that is named
		name, sums := t.name, numbers[t.name]
		base, ok := strings.CutSuffix(name, imatrixSums)
		switch counts := numbers[base+imatrixCounts]; {
		case ok && counts == nil:
			return nil, fmt.Errorf("tensor %q has no %q", name, base+imatrixCounts)
		case ok:
			m.Entries = append(m.Entries, InputSquares{base, sums, counts})
		case !strings.HasSuffix(name, imatrixCounts) || numbers[strings.TrimSuffix(name, imatrixCounts)+imatrixSums] == nil:
			return nil, fmt.Errorf("tensor %q is no part of an importance matrix", name)
		}
	}
	return m, nil
}

// readOldImportance reads: the number of entries; of each the length of its name, the name, the number of chunks, that of its inputs, and
// float32 means times chunks; then, where they were written, the number of chunks, and the name of the text with its length.
func readOldImportance(b []byte) (*Importance, error) {
	r := &ggufReader{rest: b, size: len(b)}
	n := r.u32()
	if n == 0 || n > mostEntries {
		return nil, errors.New("neither GGUF nor the binary form of an importance matrix")
	}
	m := &Importance{}
	for range n {
		length := r.u32()
		if length == 0 || length > ggufMaxName {
			r.fail("a name of %d bytes", length)
		}
		name := string(r.take(uint64(length)))
		calls, k := r.u32(), r.u32()
		if int32(calls) <= 0 {
			r.fail("%q: %d chunks", name, int32(calls))
		}
		sums := numbers[float32](r, uint64(k))
		if r.err != nil {
			return nil, r.err
		}
		m.Entries = append(m.Entries, InputSquares{name, sums, []float32{float32(calls)}})
	}
	if len(r.rest) > 0 {
		m.Chunks = r.u32()
		m.Datasets = []string{string(r.take(uint64(r.u32())))}
	}
	if len(r.rest) > 0 {
		r.fail("%d bytes too many", len(r.rest))
	}
	return m, r.err
}

// check holds the sorted entries to what sums of squares can be.
func (m *Importance) check() error {
	if len(m.Entries) == 0 {
		return errors.New("there are no tensors in it")
	}
	for i, e := range m.Entries {
		switch {
		case i > 0 && e.Name == m.Entries[i-1].Name:
			return fmt.Errorf("%q occurs twice", e.Name)
		case len(e.Sums) == 0 || len(e.Counts) == 0 || len(e.Sums)%len(e.Counts) != 0:
			return fmt.Errorf("%q: %d sums for %d matrices", e.Name, len(e.Sums), len(e.Counts))
		}
		for _, list := range [][]float32{e.Sums, e.Counts} {
			for k, v := range list {
				if !(v >= 0) || math.IsInf(float64(v), 0) {
					return fmt.Errorf("%q: number %d is %g", e.Name, k, v)
				}
			}
		}
	}
	return nil
}

// Write writes the GGUF form; entries are in the order of their names.
func (m *Importance) Write(w io.Writer) error {
	b := append([]byte(nil), ggufMagic...)
	u32 := func(v uint32) { b = binary.LittleEndian.AppendUint32(b, v) }
	u64 := func(v int) { b = binary.LittleEndian.AppendUint64(b, uint64(v)) }
	text := func(s string) {
		u64(len(s))
		b = append(b, s...)
	}
	u32(ggufVersion)
	u64(2 * len(m.Entries))
	u64(4)
	text("general.type")
	u32(ggufString)
	text(imatrixType)
	text("imatrix.datasets")
	u32(ggufArray)
	u32(ggufString)
	u64(len(m.Datasets))
	for _, s := range m.Datasets {
		text(s)
	}
	for _, kv := range []struct {
		key   string
		value uint32
	}{{"imatrix.chunk_count", m.Chunks}, {"imatrix.chunk_size", m.ChunkSize}} {
		text(kv.key)
		u32(ggufUint32)
		u32(kv.value)
	}
	var data []byte
	add := func(name string, dim int, list []float32) {
		text(name)
		u32(2)
		u64(dim)
		u64(len(list) / dim)
		u32(0)
		u64(len(data))
		for _, v := range list {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		data = append(data, make([]byte, -len(data)&(ggufAlignment-1))...)
	}
	for _, e := range m.Entries {
		add(e.Name+imatrixSums, len(e.Sums)/len(e.Counts), e.Sums)
		add(e.Name+imatrixCounts, 1, e.Counts)
	}
	b = append(b, make([]byte, -len(b)&(ggufAlignment-1))...)
	_, err := w.Write(append(b, data...))
	return err
}
