package calib

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"qwb/graph/tensor"
	"qwb/observers"
)

// Hash is the identity of a sample: SHA-256 of its preprocessed inputs in canonical form.
type Hash [32]byte

// half puts the samples into two halves that do not depend on how they are ordered or split.
func (h Hash) half() int { return int(h[len(h)-1] & 1) }

// union returns the sorted union of two lists.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// commonSeed is the seed of both, 0 if there is none.
func commonSeed(a, b uint64) uint64 {
	if a == b {
		return a
	}
	return 0
}

func sortHashes(list []Hash) { slices.SortFunc(list, compareHashes) }

func compareHashes(a, b Hash) int { return bytes.Compare(a[:], b[:]) }

// MaxKept is how many samples are kept whole.
const MaxKept = 8

// Kept is a sample that is kept with its inputs.
type Kept struct {
	Hash  Hash
	Feeds map[string]*tensor.Tensor
}

// Tensor is what was seen of one float32 tensor of the graph.
type Tensor struct {
	State *observers.State
	// Halves are the ranges of the samples whose hashes end in 0 and in 1: how far they differ tells whether more samples would
	// still move the range.
	Halves [2]observers.Extent
}

func newTensor(st *observers.State) *Tensor {
	return &Tensor{st, [2]observers.Extent{observers.NoExtent, observers.NoExtent}}
}

func (t *Tensor) merge(o *Tensor) {
	t.State.Merge(o.State)
	for i := range t.Halves {
		t.Halves[i] = t.Halves[i].Union(o.Halves[i])
	}
}

// Stats are the statistics of every float32 tensor of a graph over a multiset of samples, and a function of that multiset
// alone: threads, order, interruptions and merging leave no trace.
type Stats struct {
	Model, Preprocess string // as given to Run
	// Sources are where the samples came from, sorted, without repetition; Seed is what chose among them, 0 where the parts
	// were chosen by different ones.
	Sources []string
	Seed    uint64

	hashes  []Hash // sorted, with repetitions
	kept    []Kept // distinct, the smallest hashes, ascending
	tensors map[string]*Tensor
	sums    map[string]*observers.InputSums // by operator; nil: none were kept
	classes classCounts                     // of those that have a label
}

// Samples returns how many samples were observed; a sample that occurs twice counts twice.
func (s *Stats) Samples() int { return len(s.hashes) }

// Hashes returns the hashes of the samples, sorted, repeated where a sample is. Do not change it.
func (s *Stats) Hashes() []Hash { return s.hashes }

// Kept returns the up to MaxKept distinct samples with the smallest hashes, in ascending order. Do not change it.
func (s *Stats) Kept() []Kept { return s.kept }

// Tensor returns what was seen of the tensor with this name, nil if nothing was.
func (s *Stats) Tensor(name string) *Tensor { return s.tensors[name] }

// HasBins reports whether every tensor has bins, so that all methods are served. Minima and maxima are there in any case.
func (s *Stats) HasBins() bool {
	for _, t := range s.tensors {
		if !t.State.HasBins() {
			return false
		}
	}
	return true
}

// Names returns the names of the tensors, sorted.
func (s *Stats) Names() []string {
	names := make([]string, 0, len(s.tensors))
	for n := range s.tensors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// keep takes k into the kept samples if its hash is among the smallest. Samples with one hash are equal.
func (s *Stats) keep(k Kept) {
	i, found := slices.BinarySearchFunc(s.kept, k, func(a, b Kept) int { return compareHashes(a.Hash, b.Hash) })
	if found || i == MaxKept {
		return
	}
	feeds := make(map[string]*tensor.Tensor, len(k.Feeds))
	for name, t := range k.Feeds {
		feeds[name] = t.ToRowMajor().Clone()
	}
	s.kept = slices.Insert(slices.Clip(s.kept), i, Kept{k.Hash, feeds})
	s.kept = s.kept[:min(len(s.kept), MaxKept)]
}

// sameOrigin reports whether two statistics are of the same model and preprocessing.
func sameOrigin(a, b *Stats) error {
	if a.Model != b.Model {
		return fmt.Errorf("they are of another model (%s, not %s)", b.Model, a.Model)
	}
	if a.Preprocess != b.Preprocess {
		return fmt.Errorf("their samples were preprocessed differently (%s, not %s)", b.Preprocess, a.Preprocess)
	}
	return nil
}

// Merge returns what one run over the samples of both would have given, byte for byte and in either order. It fails if
// model or preprocessing differ. Samples that occur in both are counted in both, as a data set that contains them twice
// would be; since nothing can take them out again, overlap says how many there are, and a caller should warn of them.
func Merge(a, b *Stats) (merged *Stats, overlap int, err error) {
	if err := sameOrigin(a, b); err != nil {
		return nil, 0, fmt.Errorf("merge statistics: %w", err)
	}
	m := &Stats{Model: a.Model, Preprocess: a.Preprocess, Sources: union(a.Sources, b.Sources), Seed: commonSeed(a.Seed, b.Seed),
		tensors: map[string]*Tensor{}}
	m.hashes = append(append(m.hashes, a.hashes...), b.hashes...)
	sortHashes(m.hashes)
	for i, j := 0, 0; i < len(a.hashes) && j < len(b.hashes); {
		switch c := compareHashes(a.hashes[i], b.hashes[j]); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			overlap++
			i++
			j++
		}
	}
	m.kept = append(m.kept, a.kept...)
	m.classes.merge(a.classes)
	m.classes.merge(b.classes)
	for _, k := range b.kept {
		m.keep(k)
	}
	for _, s := range []*Stats{a, b} {
		for name, t := range s.tensors {
			if m.tensors[name] == nil {
				m.tensors[name] = newTensor(observers.New())
			}
			m.tensors[name].merge(t)
		}
	}
	if m.sums, err = mergeSums(a, b); err != nil {
		return nil, 0, fmt.Errorf("merge statistics: %w", err)
	}
	return m, overlap, nil
}

// With returns the statistics with those of some tensors, and of what operators read of them, in the place of their own: of a graph in
// which these are other ones. It fails unless both are of the same model, preprocessing and samples, and of the same kind.
func (s *Stats) With(some *Stats) (*Stats, error) {
	if err := sameOrigin(s, some); err != nil {
		return nil, fmt.Errorf("statistics of changed tensors: %w", err)
	}
	if !slices.Equal(s.hashes, some.hashes) {
		return nil, fmt.Errorf("statistics of changed tensors: they are of other samples (%d, not %d, or other ones)", len(some.hashes),
			len(s.hashes))
	}
	c := *s
	c.tensors = maps.Clone(s.tensors)
	maps.Copy(c.tensors, some.tensors)
	if c.sums = nil; s.sums != nil && some.sums != nil {
		c.sums = maps.Clone(s.sums)
		maps.Copy(c.sums, some.sums)
	}
	return &c, nil
}

// RangesHash identifies the part of the statistics that scales follow from: the SHA-256, in hexadecimal, of the observed tensors, the
// samples' hashes and the kept samples. Where the samples lie, what chose them, and sums are not part of it.
func (s *Stats) RangesHash() (string, error) {
	c := *s
	c.Sources, c.Seed = nil, 0
	h := sha256.New()
	if err := c.write(h, nil); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
