package exec

import (
	"bytes"
	"cmp"
	"slices"
)

// HeldOut reports whether a sample, by its hash, takes no part in sums that are made sample by sample, so that what is fitted on them can
// be tried on it. About half of all samples are held out. It is a bit of the hash (the second lowest of the last byte), so it does not
// depend on the order of the data or on how it is split; the lowest bit, by which statistics split samples into halves, is another one.
func HeldOut(hash [32]byte) bool { return hash[len(hash)-1]&2 != 0 }

// Halves says by hash which samples are held out where all of them are known.
type Halves map[[32]byte]bool

// NewHalves holds out exactly one half of the samples, or one more than the others where their number is odd: the first by rank, those that
// are HeldOut in front, then by hash. So it does not depend on the order of the data, and no more samples change sides than the count
// needs. Samples of one hash are one sample.
func NewHalves(hashes [][32]byte) Halves {
	list := slices.Clone(hashes)
	rank := func(h [32]byte) int {
		if HeldOut(h) {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b [32]byte) int { return cmp.Or(rank(a)-rank(b), bytes.Compare(a[:], b[:])) })
	list = slices.Compact(list)
	halves := Halves{}
	for i, h := range list {
		halves[h] = i < (len(list)+1)/2
	}
	return halves
}
