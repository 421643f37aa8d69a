package shard

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"qwb/internal/strictjson"
)

// Magic begins the file of a part: then come the length of the head (uint32, little-endian), the head as JSON, the units as the codec has
// them, and the SHA-256 of all this.
const Magic = "qwbwork\x01"

// unit is one entry of the file.
type unit struct {
	Name  string
	Bytes []byte
}

// Write writes the file of a part. The same part gives the same bytes.
func (r *Run) Write(w io.Writer) error {
	head, err := json.Marshal(r.Head)
	if err != nil {
		return err
	}
	var list []unit
	for _, name := range slices.Sorted(maps.Keys(r.units)) {
		list = append(list, unit{name, r.units[name]})
	}
	units, err := encode(&list, nil)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32([]byte(Magic), uint32(len(head)))
	b = slices.Concat(b, head, units)
	sum := sha256.Sum256(b)
	_, err = w.Write(append(b, sum[:]...))
	return err
}

// Read reads the file of a part.
func Read(b []byte) (*Run, error) {
	start := len(Magic) + 4
	if len(b) < start+sha256.Size || !bytes.HasPrefix(b, []byte(Magic)) {
		return nil, errDamaged
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	n := uint64(binary.LittleEndian.Uint32(b[len(Magic):]))
	if want := sha256.Sum256(b); !bytes.Equal(sum, want[:]) || n > uint64(len(b)-start) {
		return nil, errDamaged
	}
	r := New("", nil, 0, 0)
	if err := strictjson.Decode("part", b[start:start+int(n)], &r.Head); err != nil {
		return nil, err
	}
	if r.Index < 1 || r.Index > r.Of || r.Of > Most {
		return nil, errDamaged
	}
	var list []unit
	if err := decode(b[start+int(n):], &list, nil); err != nil {
		return nil, err
	}
	for _, u := range list {
		r.units[u.Name] = u.Bytes
	}
	return r, nil
}

// Join puts all parts of a run together, in any order. One that is of another run, is there twice or is missing is an error that names it.
func Join(names []string, list []*Run) (*Run, error) {
	first := list[0]
	all := New(first.Command, first.Words, 0, first.Of)
	all.Facts = first.Facts
	have := make([]string, first.Of+1)
	for i, r := range list {
		if first.sameRun(r) != nil {
			return nil, Stranger(names, i, func(a, b int) error { return list[a].sameRun(list[b]) })
		}
		if other := have[r.Index]; other != "" {
			return nil, fmt.Errorf("merge: %s and %s are both part %d/%d", other, names[i], r.Index, r.Of)
		}
		have[r.Index] = names[i]
		maps.Copy(all.units, r.units)
		all.Layout = append(all.Layout, r.Layout...)
	}
	for i, name := range have[1:] {
		if name == "" {
			return nil, fmt.Errorf("merge: part %d of %d is missing", i+1, first.Of)
		}
	}
	return all, nil
}

// Stranger is the error of parts of which the first and another one are not of one run; same says why part b is not of the run of part a.
// The one to blame is that which fewer of the other parts go with; where as many do, the error names both.
func Stranger(names []string, other int, same func(a, b int) error) error {
	with, against := 0, 0
	for i := range names {
		switch {
		case i == 0 || i == other:
		case same(0, i) == nil:
			with++
		case same(other, i) == nil:
			against++
		}
	}
	switch {
	case with > against:
		return fmt.Errorf("merge: %s is not a part of the same run as %s: %w", names[other], names[0], same(0, other))
	case with < against:
		return fmt.Errorf("merge: %s is not a part of the same run as %s: %w", names[0], names[other], same(other, 0))
	}
	return fmt.Errorf("merge: %s and %s are parts of different runs; of the second: %w", names[0], names[other], same(0, other))
}

// sameRun says why o is no part of the same run as r; nil where it is.
func (r *Run) sameRun(o *Run) error {
	switch {
	case r.Command != o.Command:
		return fmt.Errorf("it is of qwb %s, not of qwb %s", o.Command, r.Command)
	case r.Of != o.Of:
		return fmt.Errorf("it is one of %d parts, not of %d", o.Of, r.Of)
	case !slices.Equal(r.Words, o.Words):
		return fmt.Errorf("it was made with other options: %s, not %s", strings.Join(o.Words, " "), strings.Join(r.Words, " "))
	}
	for i, f := range r.Facts {
		switch {
		case i >= len(o.Facts) || o.Facts[i].Name != f.Name:
			return errors.New("another build of qwb made it")
		case o.Facts[i].Value != f.Value:
			return fmt.Errorf("it is of another %s (%.40s, not %.40s)", f.Name, o.Facts[i].Value, f.Value)
		}
	}
	if len(o.Facts) > len(r.Facts) {
		return errors.New("another build of qwb made it")
	}
	return nil
}
