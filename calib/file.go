package calib

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/file"
	"qwb/observers"
)

// The file of statistics (.stats) is canonical: equal statistics are equal bytes. Numbers are unsigned varints, strings
// and blobs are preceded by their length.
//
//	magic "qwbstat" and the version as a byte
//	model, preprocessing; how many sources; the sources, ascending; seed
//	how many samples; their hashes, ascending
//	how many kept samples; of each the hash, how many inputs, and of each, by name: name, element type, rank, dimensions, elements
//	how many tensors; of each, by name: name, minimum and maximum of both halves (float32), state (observers.State)
//	from version 2 on: how many sections; of each, by name: name, content, SHA-256 of the content
//	SHA-256 of all that
//
// The section "classes" is the number of classes and, of each, ascending: label, samples. "extents" is the number of tensors and, of each,
// by name: name, extents sample by sample (observers.SampleExtents); "sums" the number of operators and, of each, by name: name, sums
// (observers.InputSums). Sections that are not known are passed over. RangeHash is of what stands before the sections.
const (
	fileMagic   = "qwbstat"
	fileVersion = 2

	classesSection = "classes"
	extentsSection = "extents"
	sumsSection    = "sums"
)

// ErrDamaged is returned for files that are no statistics or were changed.
var ErrDamaged = errors.New("not a statistics file, or a damaged one")

// section is what stands behind the tensors under a name.
type section struct {
	name    string
	content []byte
}

// Write writes the statistics.
func (s *Stats) Write(w io.Writer) error {
	list, err := s.sections()
	if err != nil {
		return err
	}
	return s.write(w, list)
}

// sections lists those that there are, by name.
func (s *Stats) sections() (list []section, err error) {
	if b := s.classesSection(); b != nil {
		list = append(list, section{classesSection, b})
	}
	if b, err := s.extentsSection(); err != nil {
		return nil, err
	} else if b != nil {
		list = append(list, section{extentsSection, b})
	}
	if s.sums != nil {
		b, err := s.sumsSection()
		if err != nil {
			return nil, err
		}
		list = append(list, section{sumsSection, b})
	}
	return list, nil
}

func (s *Stats) write(w io.Writer, sections []section) error {
	h := sha256.New()
	out := &limitedWriter{w: io.MultiWriter(h, w), left: math.MaxInt32 - sha256.Size}
	if err := s.writeRanges(out, append([]byte(fileMagic), fileVersion)); err != nil {
		return err
	}
	if _, err := out.Write(binary.AppendUvarint(nil, uint64(len(sections)))); err != nil {
		return err
	}
	for _, x := range sections {
		sum := sha256.Sum256(x.content)
		for _, part := range [][]byte{binary.AppendUvarint(appendBlob(nil, x.name), uint64(len(x.content))), x.content, sum[:]} {
			if _, err := out.Write(part); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(h.Sum(nil))
	return err
}

// limitedWriter fails beyond so many bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, fmt.Errorf("statistics are larger than their file may be (%d bytes)", math.MaxInt32)
	}
	return l.w.Write(b)
}

// RangeHash is the SHA-256, in hexadecimal, of what scales are made of: everything but the sections, so that a section that is added
// changes no plan.
func (s *Stats) RangeHash() (string, error) {
	h := sha256.New()
	err := s.writeRanges(h, nil)
	return hex.EncodeToString(h.Sum(nil)), err
}

func (s *Stats) sumsSection() ([]byte, error) {
	b := binary.AppendUvarint(nil, uint64(len(s.sums)))
	for _, name := range slices.Sorted(maps.Keys(s.sums)) {
		x, err := s.sums[name].MarshalBinary()
		if err != nil {
			return nil, err
		}
		b = appendBlob(appendBlob(b, name), x)
	}
	return b, nil
}

// writeRanges writes b and what version 1 of the file holds, tensor by tensor: all of them may take as much memory as they have.
func (s *Stats) writeRanges(w io.Writer, b []byte) error {
	b = appendBlob(b, s.Model)
	b = appendBlob(b, s.Preprocess)
	sources := union(s.Sources, nil) // whoever set them need not have sorted them
	b = binary.AppendUvarint(b, uint64(len(sources)))
	for _, src := range sources {
		b = appendBlob(b, src)
	}
	b = binary.AppendUvarint(b, s.Seed)
	b = binary.AppendUvarint(b, uint64(len(s.hashes)))
	for _, h := range s.hashes {
		b = append(b, h[:]...)
	}
	b = binary.AppendUvarint(b, uint64(len(s.kept)))
	for _, k := range s.kept {
		var err error
		if b, err = k.append(b); err != nil {
			return err
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.tensors)))
	for _, name := range s.Names() {
		t := s.tensors[name]
		b = appendBlob(b, name)
		for _, x := range t.Halves {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x.Min))
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x.Max))
		}
		state, err := t.State.MarshalBinary()
		if err != nil {
			return err
		}
		if _, err := w.Write(appendBlob(b, state)); err != nil {
			return err
		}
		b = b[:0]
	}
	_, err := w.Write(b) // where there are no tensors
	return err
}

func appendBlob[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func (k Kept) append(b []byte) ([]byte, error) {
	b = append(b, k.Hash[:]...)
	b = binary.AppendUvarint(b, uint64(len(k.Feeds)))
	for _, name := range slices.Sorted(maps.Keys(k.Feeds)) {
		t := k.Feeds[name]
		b = appendBlob(b, name)
		b = appendBlob(b, t.DType.String())
		b = binary.AppendUvarint(b, uint64(len(t.Shape)))
		for _, d := range t.Shape {
			b = binary.AppendUvarint(b, uint64(d))
		}
		var err error
		if b, err = appendElements(b, t); err != nil {
			return nil, fmt.Errorf("input %q of a kept sample: %w", name, err)
		}
	}
	return b, nil
}

func appendElements(b []byte, t *tensor.Tensor) ([]byte, error) {
	if texts, ok := t.Data.([]string); ok {
		for _, s := range texts {
			b = appendBlob(b, s)
		}
		return b, nil
	}
	return binary.Append(b, binary.LittleEndian, t.Data)
}

// Save writes the statistics to a file, which is always whole: it is replaced when the new one is complete.
func (s *Stats) Save(path string) error { return file.Replace(path, s.Write) }

// Load reads a file written by Save.
func Load(path string) (*Stats, error) {
	f, err := file.OpenRead(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s, err := Read(f, info.Size())
	if err != nil {
		return nil, &graph.FileError{File: path, Err: err}
	}
	return s, nil
}

// Read reads statistics of the given size. What was changed in any way is ErrDamaged; a later version is an error that says
// so. Memory is bounded by the size and by observers.MaxMemory per tensor.
func Read(r io.ReaderAt, size int64) (*Stats, error) { return ReadIn(nil, r, size) }

// ReadIn is Read where what is kept of a graph with a store lies in files of it: such statistics are not to be used when the store is
// released.
func ReadIn(store graph.Store, r io.ReaderAt, size int64) (*Stats, error) {
	head := make([]byte, len(fileMagic)+1)
	if size > math.MaxInt32 {
		return nil, fmt.Errorf("a file of %d bytes is larger than statistics can be (%d)", size, math.MaxInt32)
	}
	if size < int64(len(head)+sha256.Size) {
		return nil, ErrDamaged
	}
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if string(head[:len(fileMagic)]) != fileMagic {
		return nil, ErrDamaged
	}
	version := head[len(fileMagic)]
	if version < 1 || version > fileVersion {
		return nil, fmt.Errorf("statistics of version %d; this program knows versions 1 to %d", version, fileVersion)
	}
	all := make([]byte, size)
	if _, err := r.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	body := all[:size-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], all[len(body):]) {
		return nil, ErrDamaged
	}
	d := &reader{b: body[len(head):], room: roomIn(store)}
	s := d.stats()
	if version > 1 && d.err == nil {
		d.sections(s)
	}
	if d.err != nil || len(d.b) != 0 {
		return nil, ErrDamaged
	}
	return s, nil
}

// reader takes a file apart. After an error everything it returns is zero.
type reader struct {
	b    []byte
	err  error
	room observers.Room
}

func (d *reader) fail() { d.err, d.b = ErrDamaged, nil }

func (d *reader) stats() *Stats {
	s := &Stats{Model: string(d.blob()), Preprocess: string(d.blob()), tensors: map[string]*Tensor{}}
	for i := range d.count(1) {
		src := string(d.blob())
		if i > 0 && src <= s.Sources[i-1] {
			d.fail()
			return nil
		}
		s.Sources = append(s.Sources, src)
	}
	s.Seed = d.uint()
	for range d.count(len(Hash{})) {
		h := d.hash()
		if n := len(s.hashes); n > 0 && compareHashes(s.hashes[n-1], h) > 0 {
			d.fail()
		}
		s.hashes = append(s.hashes, h)
	}
	kept := d.count(len(Hash{}) + 1)
	if kept > MaxKept {
		d.fail()
		return nil
	}
	for range kept {
		k := Kept{Hash: d.hash(), Feeds: map[string]*tensor.Tensor{}}
		if n := len(s.kept); n > 0 && compareHashes(s.kept[n-1].Hash, k.Hash) >= 0 {
			d.fail()
		}
		last := ""
		for i := range d.count(3) {
			name := string(d.blob())
			if i > 0 && name <= last {
				d.fail()
			}
			last = name
			k.Feeds[name] = d.tensor()
		}
		s.kept = append(s.kept, k)
	}
	last := ""
	for i := range d.count(2 + 16) {
		name := string(d.blob())
		if i > 0 && name <= last {
			d.fail()
		}
		last = name
		t := newTensor(observers.NewIn(d.room))
		for half := range t.Halves {
			t.Halves[half] = observers.Extent{Min: d.float(), Max: d.float()}
		}
		if d.err == nil && t.State.UnmarshalBinary(d.blob()) != nil {
			d.fail()
		}
		if d.err != nil {
			return nil
		}
		s.tensors[name] = t
	}
	return s
}

// sections reads what follows the tensors.
func (d *reader) sections(s *Stats) {
	last := ""
	for i := range d.count(2 + sha256.Size) {
		name := string(d.blob())
		if i > 0 && name <= last {
			d.fail()
		}
		last = name
		content := d.blob()
		sum := sha256.Sum256(content)
		if !bytes.Equal(sum[:], d.take(len(sum))) {
			d.fail()
		}
		in := &reader{b: content, room: d.room}
		switch {
		case d.err != nil:
			return
		case name == classesSection:
			in.classes(s)
		case name == extentsSection:
			in.extents(s)
		case name == sumsSection:
			s.sums = in.sums()
		default:
			continue
		}
		if in.err != nil || len(in.b) > 0 {
			d.fail()
		}
	}
}

func (d *reader) sums() map[string]*observers.InputSums {
	all := map[string]*observers.InputSums{}
	last := ""
	for i := range d.count(2) {
		name := string(d.blob())
		x, err := observers.ReadInputSums(d.room, d.blob())
		if d.err == nil && (i > 0 && name <= last || err != nil) {
			d.fail()
		}
		last, all[name] = name, x
	}
	return all
}

func (d *reader) take(n int) []byte {
	if d.err != nil || n > len(d.b) {
		d.fail()
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *reader) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads how many things follow that take at least size bytes each.
func (d *reader) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *reader) blob() []byte { return d.take(d.count(1)) }

func (d *reader) hash() (h Hash) {
	copy(h[:], d.take(len(h)))
	return h
}

func (d *reader) float() float32 {
	p := d.take(4)
	if p == nil {
		return 0
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(p))
}

func (d *reader) tensor() *tensor.Tensor {
	dtype, err := tensor.ParseDType(string(d.blob()))
	if err != nil {
		d.fail()
		return nil
	}
	dims := make([]int64, d.count(1))
	shape := make([]int, len(dims))
	for i := range dims {
		v := d.uint()
		dims[i], shape[i] = int64(min(v, math.MaxInt64)), int(min(v, math.MaxInt32))
	}
	bits := dtype.Bits()
	if bits == 0 { // strings: a byte of length each, at least
		bits = 8
	}
	n, err := tensor.CheckedCount(dims, int64(len(d.b))*8/int64(bits))
	if d.err != nil || err != nil {
		d.fail()
		return nil
	}
	t := &tensor.Tensor{DType: dtype, Shape: shape, Data: tensor.MakeData(dtype, n)}
	switch data := t.Data.(type) {
	case nil:
		d.fail()
	case []string:
		for i := range data {
			data[i] = string(d.blob())
		}
	default:
		size := binary.Size(data)
		if _, err := binary.Decode(d.take(size), binary.LittleEndian, data); err != nil && size > 0 {
			d.fail()
		}
	}
	return t
}
