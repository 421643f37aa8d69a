package export

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"qwb/graph/tensor"
	"qwb/internal/plain"
)

// ItemKind says what the numbers of an Item are.
type ItemKind string

// Kinds of numbers.
const (
	Codes       ItemKind = "codes"   // of a constant or of the weights of a step, row-major in the layout of the model
	Bias        ItemKind = "bias"    // integers that are added to a sum of products
	Numbers     ItemKind = "numbers" // float32 numbers of a constant that is not quantized
	Scales      ItemKind = "scales"
	ZeroPoints  ItemKind = "zero points"
	Grid        ItemKind = "grid"        // of a slot, see GridOf; of a tensor of a program the lowest and the highest code
	Clamp       ItemKind = "clamp"       // the lowest and the highest result of a step
	Table       ItemKind = "table"       // of a function of single codes, by raw byte or word
	Multipliers ItemKind = "multipliers" // see MultipliersOf
	Factors     ItemKind = "factors"
	Doubles     ItemKind = "doubles"
)

// Item is the numbers of one kind at one place of a model: one of Ints, Narrow, Wide, Floats and Texts is not nil, unless there are none.
type Item struct {
	At     string // as SlotName, OutputName, TensorName and StepName have it
	Kind   ItemKind
	Ints   []int32
	Narrow *tensor.Tensor // row-major: integers as they are stored
	Wide   []int64
	Floats []float32
	Texts  []string
	Raw    []byte // elements of Size bytes as they lie in a memory or an array, little-endian
	Size   int
	// Stored is what a file holds for a float32 number of the plan, for recovered items of a file that keeps another one: its
	// reciprocal, its half. Nil: the number itself.
	Stored func(float32) float32
}

func (it *Item) len() int {
	n := len(it.Ints) + len(it.Wide) + len(it.Floats) + len(it.Texts)
	if it.Narrow != nil {
		n += it.Narrow.Len()
	}
	if it.Size > 0 {
		n += len(it.Raw) / it.Size
	}
	return n
}

// ints are the integers of Ints and of Narrow.
func (it *Item) ints() []int32 {
	if it.Narrow != nil {
		return it.Narrow.Integers()
	}
	return it.Ints
}

// Recovered is what the reader of a format found in a file. The zero value is ready for use.
type Recovered struct {
	// Wants yields what a file of this form holds of its plan, made of what it was written from and not of the file: OfSet, OfProgram, or
	// several one after the other.
	Wants func(in *Input, yield func(*Item) error) error
	// Lacks says why the format cannot hold an item, in a few words ("rounded shifts stand in its place"); "": it has to be there. An item
	// that the file holds is compared all the same. Nil: the format holds everything.
	Lacks func(*Item) string
	// Forget is told which elements were compared. It may be nil.
	Forget func(*tensor.Tensor)

	items map[place]*Item
	twice []*Item // second items of a place
}

type place struct {
	at   string
	kind ItemKind
}

// Add adds an item. One that is there already has to be added with the same numbers.
func (r *Recovered) Add(it *Item) {
	if r.items == nil {
		r.items = map[place]*Item{}
	}
	key := place{it.At, it.Kind}
	if first := r.items[key]; first == nil {
		r.items[key] = it
	} else if i, _, _ := first.differs(it); i >= 0 {
		r.twice = append(r.twice, it)
	}
}

// ReadBack is the outcome of comparing a file with what it was made of.
type ReadBack struct {
	Compared  int64 `json:"compared"`  // numbers
	Different int64 `json:"different"` // of them
	// First is the first of these in words; empty: there is none.
	First string `json:"first,omitempty"`
	// NotHeld is what the format cannot hold, with the number of numbers, a line each.
	NotHeld []string `json:"not_held"`
	Ran
}

// Ran is what running the file's own program found: integers that it computes as the plan's does. All is 0 where it was not run.
type Ran struct {
	// Same says that it is the plan's, operation for operation and number for number, so that one sample is enough, and none where the plan
	// was verified before.
	Same     bool   `json:"same_program"`
	Samples  int    `json:"samples"`
	Integers int64  `json:"integers"`
	Of       int64  `json:"integers_of"`       // of the plan: those that the file's program does not have are missing in Integers
	Not      string `json:"not_run,omitempty"` // why it was not run, where its reader gives a graph
}

// Equal reads what was written of a plan or program back, and compares it with that. What differs is an error, with the outcome where there
// is one; a format without Back gives nil.
func (f *Format) Equal(ctx context.Context, in *Input, out *Output) (*ReadBack, error) {
	if f.Back == nil {
		return nil, nil
	}
	back, err := f.Back(ctx, in, out)
	if err != nil {
		return nil, fmt.Errorf("export: reading what was written: %w", err)
	}
	if back.Close != nil {
		defer back.Close()
	}
	b, err := back.Held.Compare(ctx, in)
	if err == nil && b.Different > 0 {
		err = fmt.Errorf("export: %d of %s in the file are not those of the plan, the first: %s", b.Different,
			plain.Count(int(b.Compared), "number"), b.First)
	}
	if err == nil && back.Graph != nil && in.Run != nil {
		b.Ran, err = in.Run(ctx, back)
	}
	return b, err
}

// String is the outcome in a few words.
func (b *ReadBack) String() string {
	s := fmt.Sprintf("%s of the file equal the plan's", plain.Count(int(b.Compared), "number"))
	switch of := ""; {
	case b.Same && b.Samples == 0:
		s += "; its own program is the plan's, operation for operation and number for number, and was not run again"
	case b.Not != "":
		s += "; its own program was not run: " + b.Not
	case b.Samples > 0:
		if b.Integers < b.Of {
			of = fmt.Sprintf("%d of ", b.Integers)
		}
		same := ""
		if b.Same {
			same = "is the plan's, operation for operation and number for number, and "
		}
		s += fmt.Sprintf("; its own program %scomputes %sthe plan's %s on %s", same, of, plain.Count(int(b.Of), "integer"),
			plain.Count(b.Samples, "sample"))
	}
	switch n := len(b.NotHeld); {
	case n > 1:
		s += fmt.Sprintf("; the format does not hold %s, and %d more", b.NotHeld[0], n-1)
	case n > 0:
		s += "; the format does not hold " + b.NotHeld[0]
	}
	return s
}

func (b *ReadBack) differ(n int, format string, a ...any) {
	if b.Different += int64(n); b.First == "" {
		b.First = fmt.Sprintf(format, a...)
	}
}

// Compare compares everything that the file has to hold with what it holds. Floats are equal if their bits are. An item that is missing
// without a reason, and one that the plan does not have, differ in all their numbers.
func (r *Recovered) Compare(ctx context.Context, in *Input) (*ReadBack, error) {
	b, seen := &ReadBack{NotHeld: []string{}}, map[place]bool{}
	lacks := map[string]int{}
	err := r.Wants(in, func(want *Item) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := place{want.At, want.Kind}
		held := r.items[key]
		seen[key] = true
		if held == nil && r.Lacks != nil {
			if why := r.Lacks(want); why != "" {
				lacks[why] += want.len()
				return nil
			}
		}
		b.Compared += int64(max(want.len(), 1))
		if held == nil {
			b.differ(max(want.len(), 1), "%s: the file has no %s", want.At, want.Kind)
			return nil
		}
		if i, n, what := want.differs(held); i >= 0 {
			b.differ(n, "%s: %s %d: %s", want.At, want.Kind, i, what)
		}
		if r.Forget != nil {
			r.Forget(held.Narrow)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("export: what the file has to hold: %w", err)
	}
	for _, it := range r.twice {
		b.differ(max(it.len(), 1), "%s: the file has %s twice, and they are not the same", it.At, it.Kind)
	}
	for _, key := range r.sorted() {
		if !seen[key] {
			n := max(r.items[key].len(), 1)
			b.Compared += int64(n)
			b.differ(n, "%s: the file has %s that the plan does not have", key.at, key.kind)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(lacks)) {
		b.NotHeld = append(b.NotHeld, fmt.Sprintf("%s (%s)", why, plain.Count(lacks[why], "number")))
	}
	return b, nil
}

func (r *Recovered) sorted() []place {
	return slices.SortedFunc(maps.Keys(r.items), func(a, b place) int {
		if c := strings.Compare(a.at, b.at); c != 0 {
			return c
		}
		return strings.Compare(string(a.kind), string(b.kind))
	})
}

// differs returns the first number in which two items of a place differ, in how many they do, and what is there; i is -1 where they are
// the same.
func (it *Item) differs(held *Item) (i, n int, what string) {
	if it.Texts != nil || held.Texts != nil {
		return differentTexts(it.Texts, held.Texts)
	}
	if it.len() != held.len() {
		return 0, max(it.len(), held.len()), fmt.Sprintf("the file has %d numbers, the plan %d", held.len(), it.len())
	}
	if it.Size > 0 && it.len() > 0 {
		if it.Size != held.Size {
			return 0, it.len(), fmt.Sprintf("elements of %d bytes, the plan has %d", held.Size, it.Size)
		}
		if i, n = differentBytes(it.Raw, held.Raw, it.Size); i >= 0 {
			at := i * it.Size
			what = fmt.Sprintf("the file has the bytes %x, the run %x", held.Raw[at:at+it.Size], it.Raw[at:at+it.Size])
		}
		return i, n, what
	}
	i = -1
	see := func(k int, differ bool, got, want any) {
		if differ {
			if n++; i < 0 {
				i, what = k, fmt.Sprintf("the file has %v, the plan %v", got, want)
			}
		}
	}
	if it.Floats != nil {
		if held.Floats == nil && it.len() > 0 {
			return 0, it.len(), "the file has integers there"
		}
		for k, x := range it.Floats {
			if held.Stored != nil {
				x = held.Stored(x)
			}
			y := held.Floats[k]
			if math.Float32bits(x) != math.Float32bits(y) && (x == x || y == y) {
				see(k, true, y, x)
			}
		}
		return i, n, what
	}
	if held.Floats != nil && it.len() > 0 {
		return 0, it.len(), "the file has float32 numbers there"
	}
	if it.Narrow != nil && held.Narrow != nil && tensor.Equal(it.Narrow, held.Narrow) {
		return i, n, what
	}
	differ := func(k int, plan, file int64) { see(k, true, file, plan) }
	switch {
	case it.Wide != nil && held.Wide != nil:
		unequal(it.Wide, held.Wide, differ)
	case it.Wide != nil:
		unequal(it.Wide, held.ints(), differ)
	case held.Wide != nil:
		unequal(it.ints(), held.Wide, differ)
	default:
		unequal(it.ints(), held.ints(), differ)
	}
	return i, n, what
}

// unequal visits the places where two lists differ.
func unequal[A, B int32 | int64](plan []A, file []B, see func(k int, plan, file int64)) {
	file = file[:len(plan)]
	for k, x := range plan {
		if y := file[k]; int64(x) != int64(y) {
			see(k, int64(x), int64(y))
		}
	}
}

// differentTexts is differs of texts: what either list has that the other has not.
func differentTexts(plan, file []string) (i, n int, what string) {
	i = -1
	for k := range max(len(plan), len(file)) {
		want, got := "nothing more", "nothing more"
		if k < len(plan) {
			want = plan[k]
		}
		if k < len(file) {
			got = file[k]
		}
		if want != got {
			if n++; i < 0 {
				i, what = k, fmt.Sprintf("the file has %s, the plan %s", got, want)
			}
		}
	}
	return i, n, what
}
