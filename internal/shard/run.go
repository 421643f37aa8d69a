// Package shard cuts the run of a command into parts that any machine may do, in any order, and puts them together again. A command does
// its work in units: samples, combinations, operators. A part does some of them and keeps what they gave; a merge runs the command once
// more, in which every unit is what the parts have, so that all that follows from them is computed by the same code from the same numbers:
// the result has the bytes of one run.
//
// A run in parts stands in the context of the command. Where there is none, units are done where they stand.
//
// Unstable: it may change without notice.
package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Most bounds how many parts there are.
const Most = 1 << 16

// ErrDone ends a command that does a part: its units are done, and what follows needs those of the other parts.
var ErrDone = errors.New("this part is done")

// A Fact is something that is the same for all parts of a run: a model by its hash, for one.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Run is a run in parts: one of them, or all of them together. A nil Run is a run without parts.
type Run struct {
	Head
	mu    sync.Mutex // guards Facts, layout and units
	units map[string][]byte
}

// Head says of a part what it is of.
type Head struct {
	Command string   `json:"command"`
	Words   []string `json:"words"` // its arguments and options
	Index   int      `json:"part"`  // from 1; 0: all parts together
	Of      int      `json:"of"`
	Facts   []Fact   `json:"facts"`
	Layout  []string `json:"layout"` // the types of units, by their hashes: another build of qwb may have others
}

// New begins part index of so many.
func New(command string, words []string, index, of int) *Run {
	return &Run{Head: Head{Command: command, Words: append([]string{}, words...), Index: index, Of: of, Facts: []Fact{}, Layout: []string{}},
		units: map[string][]byte{}}
}

type key struct{}

// With is a context in which a command does r.
func With(ctx context.Context, r *Run) context.Context { return context.WithValue(ctx, key{}, r) }

// In returns the run of a context, nil where it has no parts.
func In(ctx context.Context) *Run {
	r, _ := ctx.Value(key{}).(*Run)
	return r
}

// IsPart reports whether this is one part, IsMerge whether it is all of them together.
func (r *Run) IsPart() bool  { return r != nil && r.Index > 0 }
func (r *Run) IsMerge() bool { return r != nil && r.Index == 0 }

// Mine reports whether unit i, from 0, is of this part: each has every Of-th one.
func (r *Run) Mine(i int) bool { return r == nil || r.Index > 0 && i%r.Of == r.Index-1 }

// Done is ErrDone in a part, nil elsewhere.
func (r *Run) Done() error {
	if r.IsPart() {
		return ErrDone
	}
	return nil
}

// Deal says which samples of a data set a run has.
type Deal struct {
	*Run
	Places []int // of the samples of a part among all
	Len    int   // of the data set
	// Ranges is how many units the work on a sample is, where it is several: ranges of operators.
	Ranges int
}

// Range is which of the ranges of a sample is of this part, -1 where none is. Where a sample has no ranges it is 0.
func (d *Deal) Range(place int) int {
	if d.Ranges < 2 || !d.IsPart() {
		return 0
	}
	for r := range d.Ranges {
		if d.Mine(place*d.Ranges + r) {
			return r
		}
	}
	return -1
}

// Units is how many units there are.
func (r *Run) Units() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.units)
}

// Fact notes something that all parts have in common. In a merge it is an error that they were of another one.
func (r *Run) Fact(name, value string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := Fact{name, value}
	switch {
	case slices.Contains(r.Facts, f):
	case r.Index > 0:
		r.Facts = append(r.Facts, f)
	default:
		for _, was := range r.Facts {
			if was.Name == name {
				return fmt.Errorf("merge: the parts are of another %s (%.40s, not %.40s)", name, was.Value, value)
			}
		}
		return fmt.Errorf("merge: the parts say nothing about the %s: another build of qwb made them", name)
	}
	return nil
}

// Unit does a unit of work where it is of this part, or there are none. In a merge it is what the parts have; in a part of others the zero
// value. name is its own in the whole run. kinds are what its interfaces may hold.
func Unit[T any](r *Run, name string, mine bool, do func() (T, error), kinds ...any) (v T, err error) {
	switch {
	case r.IsMerge():
		err = r.get(name, &v, kinds)
	case r == nil || mine:
		if v, err = do(); err == nil && r != nil {
			err = r.put(name, &v, kinds)
		}
	}
	return v, err
}

// All returns what every part has of something: list itself in a run without parts.
func All[T any](r *Run, name string, list []T) (all []T, err error) {
	if !r.IsMerge() {
		if r == nil {
			return list, nil
		}
		return Unit(r, fmt.Sprintf("%s of part %d", name, r.Index), true, func() ([]T, error) { return list, nil })
	}
	for i := range r.Of {
		part, err := Unit[[]T](r, fmt.Sprintf("%s of part %d", name, i+1), false, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

// put keeps what a unit gave; v points to it.
func (r *Run) put(name string, v any, kinds []any) error {
	layout := layoutOf(v, kinds)
	b, err := encode(v, kinds)
	if err != nil {
		return fmt.Errorf("part: %s: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.Layout, layout) {
		r.Layout = append(r.Layout, layout)
		slices.Sort(r.Layout)
	}
	r.units[name] = b
	return nil
}

func (r *Run) get(name string, v any, kinds []any) error {
	layout := layoutOf(v, kinds)
	r.mu.Lock()
	b, ok := r.units[name]
	known := slices.Contains(r.Layout, layout)
	r.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("merge: the parts do not have %s", name)
	case !known:
		return fmt.Errorf("merge: another build of qwb made the parts (%s)", name)
	}
	if err := decode(b, v, kinds); err != nil {
		return fmt.Errorf("merge: %s: %w", name, err)
	}
	return nil
}
