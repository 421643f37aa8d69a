package analysis

import (
	"fmt"

	"qwb/graph"
)

// classChange is what a quantized run does to the classes of an output, or many runs together: in how many of its rows another class has
// the highest score, and the errors of scores and of what Softmax makes of them, summed over samples.
type classChange struct {
	rows, changed  int
	centred, plain float64
}

// changes compares the classes of two runs, by output; those without classes have no rows. Nothing is said where scores were not seen.
func (j *Judge) changes(q, f *Verdict) ([]classChange, error) {
	if !j.Classes() || len(q.scores) < len(j.logits) || len(f.scores) < len(j.logits) {
		return nil, nil
	}
	list := make([]classChange, len(j.logits))
	for i, l := range j.logits {
		if l.node == graph.NoNode || q.scores[i] == nil || f.scores[i] == nil {
			continue
		}
		s, err := j.classes(i, q, f)
		if err != nil {
			return nil, err
		}
		e, err := Compare(q.outputs[i], f.outputs[i])
		if err != nil {
			return nil, err
		}
		list[i] = classChange{s.rows, s.changed, s.nsr, e.NSR}
	}
	return list, nil
}

// headlines is Headlines of runs that were compared by sample.
func (j *Judge) headlines(bySample [][]classChange, parts []SliceError, w weighed) []string {
	outputs := make([]OutputError, len(j.logits))
	for i := range outputs {
		o := &outputs[i]
		o.Output, o.NoSignal = j.g.Value(j.g.Outputs[i]).Name, w.of[i] == 0
		var c NSR
		o.Samples, o.EmptySamples = len(w.empty[i]), w.empty[i].count()
		for k, s := range bySample {
			if i < len(s) {
				o.Rows, o.ClassesChanged = o.Rows+s[i].rows, o.ClassesChanged+s[i].changed
				share, n := w.empty[i].weight(k), float64(len(bySample))
				c.NSR, o.NSR = c.NSR+s[i].centred*share/n, o.NSR+s[i].plain*share/n
			}
		}
		if o.Rows > 0 {
			o.Centred = &c
		}
		for _, p := range parts {
			if p.Output == o.Output {
				o.Slices = append(o.Slices, p)
			}
		}
	}
	return Headlines(outputs)
}

// Headlines say what counts more than any figure of the outputs: parts that carry no signal, classes that change, and errors of class
// scores and of probabilities that contradict each other.
func Headlines(outputs []OutputError) (list []string) {
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for i := range outputs {
		o := &outputs[i]
		if o.NoSignal {
			say("output %s: %s, its error does not count", o.Output, SignalNone)
			continue
		}
		if o.EmptySamples > 0 {
			say("output %s: no signal in %d of %d samples: their ratio to nothing is left out of means", o.Output, o.EmptySamples, o.Samples)
		}
		for _, g := range Found(o.Slices, SignalLost) {
			say("%s: %s", g.Name(), g.Text())
		}
		for _, g := range Found(o.Slices, SignalNone) {
			if g.First.Part {
				say("%s: %s", g.Name(), g.Text())
			}
		}
		switch {
		case o.Apart():
			say("output %s: the two errors contradict each other: NSR %.2g of the class scores, %.2g of the probabilities; the class changes in "+
				"%d of %d rows", o.Output, o.Centred.NSR, o.NSR,
				o.ClassesChanged, o.Rows)
		case o.ClassesChanged > 0:
			say("output %s: the class changes in %d of %d rows", o.Output, o.ClassesChanged, o.Rows)
		}
	}
	return list
}
