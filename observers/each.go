package observers

import (
	"encoding/binary"
	"errors"
)

// SampleExtents adds up the minimum, the maximum and the largest magnitude that a tensor has in each sample, without rounding, so that the
// order of the samples does not matter: some tools take the mean of these. Samples without a finite value do not count.
// The zero value is of no samples.
type SampleExtents struct {
	Count       uint64
	lo, hi, abs Exact
}

// Add takes the extent of one sample.
func (s *SampleExtents) Add(x Extent) {
	if x.Empty() {
		return
	}
	s.Count++
	s.lo.Add(x.Min)
	s.hi.Add(x.Max)
	s.abs.Add(max(-x.Min, x.Max))
}

// Merge adds what o has seen.
func (s *SampleExtents) Merge(o *SampleExtents) {
	s.Count += o.Count
	s.lo.AddExact(&o.lo)
	s.hi.AddExact(&o.hi)
	s.abs.AddExact(&o.abs)
}

// SampleMean is the mean over samples of each one's minimum, maximum and largest magnitude.
type SampleMean struct{ Lo, Hi, Abs float64 }

// Mean returns the means; Count must not be 0.
func (s *SampleExtents) Mean() SampleMean {
	n := float64(s.Count)
	return SampleMean{s.lo.Float64() / n, s.hi.Float64() / n, s.abs.Float64() / n}
}

// MeanOf is the mean of one sample of this extent.
func MeanOf(x Extent) SampleMean {
	return SampleMean{float64(x.Min), float64(x.Max), float64(max(-x.Min, x.Max))}
}

// Union covers the means of two tensors that share a scale.
func (m SampleMean) Union(o SampleMean) SampleMean {
	return SampleMean{min(m.Lo, o.Lo), max(m.Hi, o.Hi), max(m.Abs, o.Abs)}
}

// MarshalBinary returns the canonical encoding: the count as a varint and the three sums as sums have them.
func (s *SampleExtents) MarshalBinary() ([]byte, error) {
	return s.abs.append(s.hi.append(s.lo.append(binary.AppendUvarint(nil, s.Count)))), nil
}

var errExtents = errors.New("extents of samples are damaged")

// UnmarshalBinary replaces s by what b holds. What is no encoding is an error.
func (s *SampleExtents) UnmarshalBinary(b []byte) error {
	var n SampleExtents
	count, size := binary.Uvarint(b)
	if size <= 0 || size > 1 && b[size-1] == 0 {
		return errExtents
	}
	n.Count = count
	var err error
	if n.lo, b, err = parseExact(b[size:]); err != nil {
		return errExtents
	}
	if n.hi, b, err = parseExact(b); err != nil {
		return errExtents
	}
	if n.abs, b, err = parseExact(b); err != nil || len(b) > 0 || n.Count == 0 && n != (SampleExtents{}) {
		return errExtents
	}
	*s = n
	return nil
}

// Samples returns the extents sample by sample; nil where nobody kept them, as in statistics of earlier versions. Do not change it.
func (st *State) Samples() *SampleExtents { return st.samples }

// SampleMean is that of the samples; of several tensors with one scale the union of theirs. known is false where there is none.
func (st *State) SampleMean() (mean SampleMean, known bool) {
	switch {
	case st.mean != nil:
		return *st.mean, true
	case st.samples != nil && st.samples.Count > 0:
		return st.samples.Mean(), true
	}
	return SampleMean{}, false
}

// SetSampleMean says what SampleMean returns, for several tensors that are taken together.
func (st *State) SetSampleMean(mean SampleMean) { st.mean = &mean }

// SetSamples says what the extents sample by sample are. They are no part of the state's encoding.
func (st *State) SetSamples(s *SampleExtents) { st.samples = s }

// mergeSamples makes the extents those of both; unknown where one of the two has seen something and does not know them.
func (st *State) mergeSamples(o *State) {
	st.mean = nil
	switch {
	case o.none():
	case o.samples == nil:
		st.samples = nil
	case st.none():
		c := *o.samples
		st.samples = &c
	case st.samples != nil:
		c := *st.samples
		c.Merge(o.samples)
		st.samples = &c
	}
}

// none reports whether nothing was seen.
func (st *State) none() bool { return st.Count() == 0 && st.odd() == 0 }
