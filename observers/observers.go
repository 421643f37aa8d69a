package observers

import (
	"errors"
	"fmt"

	"qwb/quantizer/tqc"
)

// Range is what a method decided: values outside [Lo, Hi] are clipped. Lo <= 0 <= Hi does not have to hold; qmath widens.
type Range struct {
	Lo, Hi float64
}

// DefaultPercentile is PPQ's.
const DefaultPercentile = 0.9999

// Method turns the statistics of one tensor into a range for a policy. Methods are values, listed in All. A program may bring along others
// (qwb.Catalog.Observers), whose names have a slash: acme/three-sigma.
type Method struct {
	Name tqc.Observer
	Doc  string // one line
	// Range never writes to st. parameter is the number in an observer's parentheses, as in percentile(0.999), 0 for the method's own
	// default; tqc.Observer.Split says what its values are. cfg is the slot's policy; bits, integer range and symmetry matter to some methods.
	// It fails on statistics that contain NaN or no finite value, and on policies the method cannot serve (all but minmax: per-channel; kl and
	// isotone: formats other than integers).
	Range func(st *State, cfg tqc.Config, parameter float64) (Range, []tqc.Warning, error)
}

// All lists the methods in the order of simplicity, simplest first; automatic choice prefers earlier ones on a tie.
// A test holds it equal to tqc.Observers as a set.
var All = []*Method{MinMax, Percentile, MSE, Robust, KL, Isotone}

// Find returns the method of All, Peers or own that an observer names, whatever its parameter; nil if there is none.
func Find(o tqc.Observer, own ...*Method) *Method {
	name, _, err := o.Split()
	if err != nil {
		return nil
	}
	for _, list := range [][]*Method{All, Peers(), own} {
		for _, m := range list {
			if m.Name == name {
				return m
			}
		}
	}
	return nil
}

// Check reports the first method of a program's own that is incomplete, has no name of its own or stands twice.
func Check(own []*Method) error {
	for i, m := range own {
		switch {
		case !m.Name.Own():
			return fmt.Errorf("observer %q: the name of a program's own observer is two words with a slash between them, such as acme/three-sigma",
				m.Name)
		case m.Range == nil:
			return fmt.Errorf("observer %q has no function that chooses a range", m.Name)
		case Find(m.Name, own[:i]...) != nil:
			return fmt.Errorf("observer %q stands twice", m.Name)
		}
	}
	return nil
}

// Errors of Method.Range.
var (
	ErrNaN    = errors.New("the tensor contains NaN")
	ErrEmpty  = errors.New("no finite value was observed")
	ErrNoBins = errors.New("the statistics hold minima and maxima only, which serve minmax alone: calibrate on data again, without " +
		"--minmax-only")
	ErrPerChannel = errors.New("histograms are kept per tensor; only minmax gives ranges per channel")
	ErrNoRows     = errors.New("isotone needs rows: only the output of Softmax has them")
	ErrIntegers   = errors.New("it compares codes that lie evenly, those of integers: use minmax, percentile or mse")
	ErrNegative   = errors.New("isotone is for tensors without negative values, such as the output of Softmax")
)

// ready is what every method checks first. The warnings are those about infinite values.
func ready(st *State) ([]tqc.Warning, error) {
	if st.NaN() > 0 {
		return nil, ErrNaN
	}
	if st.Count() == 0 {
		return nil, ErrEmpty
	}
	if neg, pos := st.Inf(); neg+pos > 0 {
		return []tqc.Warning{{Text: fmt.Sprintf("%d values are infinite; they are clipped to the range of the finite ones", neg+pos)}}, nil
	}
	return nil, nil
}

// perTensor is ready for the methods that read the histogram.
func perTensor(st *State, cfg tqc.Config) ([]tqc.Warning, error) {
	if !cfg.Policy.Has(tqc.PerTensor) {
		return nil, ErrPerChannel
	}
	if !st.HasBins() {
		return nil, ErrNoBins
	}
	return ready(st)
}
