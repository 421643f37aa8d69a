package observers

import (
	"encoding/binary"
	"errors"
)

// SampleExtents adds up the minimum and the maximum that a tensor has in each sample, without rounding, so that the order of the samples
// does not matter: some tools take the mean of these. Samples without a finite value do not count. The zero value is of no samples.
type SampleExtents struct {
	Count  uint64
	lo, hi Exact
}

// Add takes the extent of one sample.
func (s *SampleExtents) Add(x Extent) {
	if x.Empty() {
		return
	}
	s.Count++
	s.lo.Add(x.Min)
	s.hi.Add(x.Max)
}

// Merge adds what o has seen.
func (s *SampleExtents) Merge(o *SampleExtents) {
	s.Count += o.Count
	s.lo.AddExact(&o.lo)
	s.hi.AddExact(&o.hi)
}

// Mean returns the mean minimum and the mean maximum; Count must not be 0.
func (s *SampleExtents) Mean() Range {
	return Range{s.lo.Float64() / float64(s.Count), s.hi.Float64() / float64(s.Count)}
}

// MarshalBinary returns the canonical encoding: the count as a varint and both sums as sums have them.
func (s *SampleExtents) MarshalBinary() ([]byte, error) {
	return s.hi.append(s.lo.append(binary.AppendUvarint(nil, s.Count))), nil
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
	if n.hi, b, err = parseExact(b); err != nil || len(b) > 0 || n.Count == 0 && n != (SampleExtents{}) {
		return errExtents
	}
	*s = n
	return nil
}

// Samples returns the extents sample by sample; nil where nobody kept them, as in statistics of earlier versions. Do not change it.
func (st *State) Samples() *SampleExtents { return st.samples }

// SampleMean is the mean over the samples of minimum and maximum; of several tensors with one scale the union of theirs. known is false where
// there is none.
func (st *State) SampleMean() (mean Range, known bool) {
	switch {
	case st.mean != nil:
		return *st.mean, true
	case st.samples != nil && st.samples.Count > 0:
		return st.samples.Mean(), true
	}
	return Range{}, false
}

// SetSampleMean says what SampleMean returns, for several tensors that are taken together.
func (st *State) SetSampleMean(mean Range) { st.mean = &mean }

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
