package calib

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/observers"
	"qwb/quantizer/plan"
)

// seenSample is a sample that the graph runs on.
type seenSample struct {
	hash   Hash
	summed bool // takes part in sums
	padded *graph.Padded
}

func (r *run) seenSamples(group []job) []*seenSample {
	list := make([]*seenSample, len(group))
	for i, j := range group {
		list[i] = &seenSample{Hash(j.sample.Hash), r.cfg.sums(j.sample.Hash), r.cfg.Padding.Of(r.g, j.sample.Feeds)}
	}
	return list
}

// countPadding tells how much of a sample is padding. The run is locked.
func (r *run) countPadding(s *exec.Sample) {
	if r.cfg.Padding == nil || r.cfg.Padded == nil {
		return
	}
	all, padding := r.cfg.Padding.Count(r.g, s.Feeds)
	r.cfg.Padded.Positions += all
	r.cfg.Padded.Padding += padding
}

// realRows are those rows of a tensor that are not padding as a whole.
func (s *seenSample) realRows(v graph.ValueID, t *tensor.Tensor, outer, n, inner int) *tensor.Tensor {
	filled, all := s.padded.Filled(v, t, float32(math.NaN())).F32(), t.F32()
	var rows []float32
	for o := range outer {
		for i := range inner {
			real, from := false, len(rows)
			for c := range n {
				at := (o*n+c)*inner + i
				real = real || filled[at] == filled[at]
				rows = append(rows, all[at])
			}
			if !real {
				rows = rows[:from]
			}
		}
	}
	return tensor.FromF32(rows, len(rows)/max(n, 1), n)
}

// openExtent is the extent of a tensor in a sample that is not complete.
type openExtent struct {
	of *seenSample
	x  observers.Extent
}

// note widens the extent in a sample by that of some of its elements. The tracker, or the one that serves it, is locked.
func (k *tracker) note(of *seenSample, x observers.Extent) {
	for i := range k.open {
		if k.open[i].of == of {
			k.open[i].x = k.open[i].x.Union(x)
			return
		}
	}
	k.open = append(k.open, openExtent{of, x})
}

// complete takes the extents in samples that are complete. Their sums are exact: no order matters.
func (r *run) complete(samples []*seenSample) {
	for _, k := range r.trackers {
		if k == nil {
			continue
		}
		lock := &k.mu
		if k.bounds != nil {
			lock = &k.bounds.mu
		}
		lock.Lock()
		k.open = slices.DeleteFunc(k.open, func(o openExtent) bool {
			done := slices.Contains(samples, o.of)
			if done {
				k.samples.Add(o.x)
			}
			return done
		})
		lock.Unlock()
	}
}

func (k *tracker) addSample(x observers.Extent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.samples.Add(x)
}

// resume goes on from what was seen earlier.
func (k *tracker) resume(t *Tensor) {
	k.seen = newTensor(k.make())
	k.seen.merge(t)
	if old := k.seen.State.Samples(); old != nil {
		k.samples = *old
	} else {
		k.unknown = true
	}
}

// extents are those sample by sample, nil where those of earlier samples are not known.
func (k *tracker) extents() *observers.SampleExtents {
	if k.unknown {
		return nil
	}
	return &k.samples
}

// extentsSection is nil unless they are known of all tensors.
func (s *Stats) extentsSection() ([]byte, error) {
	if len(s.tensors) == 0 {
		return nil, nil
	}
	b := binary.AppendUvarint(nil, uint64(len(s.tensors)))
	for _, name := range s.Names() {
		x := s.tensors[name].State.Samples()
		if x == nil {
			return nil, nil
		}
		content, err := x.MarshalBinary()
		if err != nil {
			return nil, err
		}
		b = appendBlob(appendBlob(b, name), content)
	}
	return b, nil
}

func (d *reader) extents(s *Stats) {
	last, n := "", d.count(2)
	if n != len(s.tensors) {
		d.fail()
	}
	for i := range n {
		name := string(d.blob())
		x := new(observers.SampleExtents)
		if b := d.blob(); d.err != nil || i > 0 && name <= last || s.tensors[name] == nil || x.UnmarshalBinary(b) != nil ||
			x.Count > uint64(len(s.hashes)) {
			d.fail()
			return
		}
		s.tensors[name].State.SetSamples(x)
		last = name
	}
}

// classCounts are samples by class.
type classCounts map[int]int

// add counts n samples of a class; those without a label (negative) do not count.
func (c *classCounts) add(class, n int) {
	if class < 0 {
		return
	}
	if *c == nil {
		*c = classCounts{}
	}
	(*c)[class] += n
}

func (c *classCounts) merge(o classCounts) {
	for class, n := range o {
		c.add(class, n)
	}
}

// collectClasses puts the counts of all samples into statistics. Those of earlier statistics stand unless their samples have labels now.
func (r *run) collectClasses(to *Stats) {
	to.classes.merge(r.fresh)
	if to.classes.merge(r.again); len(r.again) == 0 && r.cfg.Resume != nil {
		to.classes.merge(r.cfg.Resume.classes)
	}
}

// Classes says which classes the samples with a label are of; of is how many the model knows, 0 if that is not known. nil without labels.
func (s *Stats) Classes(of int) *plan.Classes { return plan.ClassesOf(s.classes, of) }

func (s *Stats) classesSection() []byte {
	if len(s.classes) == 0 {
		return nil
	}
	b := binary.AppendUvarint(nil, uint64(len(s.classes)))
	for _, class := range slices.Sorted(maps.Keys(s.classes)) {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(class)), uint64(s.classes[class]))
	}
	return b
}

func (d *reader) classes(s *Stats) {
	last, total := -1, 0
	for range d.count(2) {
		class, n := d.uint(), d.uint()
		if d.err != nil || class > 1<<31 || int(class) <= last || n == 0 || n > uint64(len(s.hashes)) {
			d.fail()
			return
		}
		last, total = int(class), total+int(n)
		s.classes.add(int(class), int(n))
	}
	if total == 0 || total > len(s.hashes) {
		d.fail()
	}
}
