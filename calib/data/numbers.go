package data

import (
	"fmt"
	"math"

	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// NotFinite is a value that is no number: the first one of an input of a sample.
type NotFinite struct {
	Sample, Input string
	At            []int // index
	Value         float32
	Count         int // how many there are in this input of this sample
}

func (n *NotFinite) String() string {
	what := "NaN"
	if n.Value == n.Value {
		what = "infinite"
	}
	return fmt.Sprintf("element %v of input %q is %s", n.At, n.Input, what)
}

// NotFinites finds, of every input of a sample, the first value that is NaN or, where none is, infinite. The order is that of the inputs.
func NotFinites(s *exec.Sample, inputs []string) (list []*NotFinite) {
	for _, name := range inputs {
		t := s.Feeds[name]
		if t == nil || !t.DType.IsFloat() {
			continue
		}
		x := exec.Floats(t.ToRowMajor()).F32()
		var found *NotFinite
		for i, v := range x {
			if v-v == 0 { // neither NaN nor infinite
				continue
			}
			if found == nil || found.Value == found.Value && v != v {
				was := found
				if found = (&NotFinite{Sample: s.Name, Input: name, At: indexOf(i, t.Shape), Value: v}); was != nil {
					found.Count = was.Count
				}
			}
			found.Count++
		}
		if found != nil {
			list = append(list, found)
		}
	}
	return list
}

// indexOf is the index of element i of a row-major tensor.
func indexOf(i int, shape []int) []int {
	at := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		at[k] = i % shape[k]
		i /= shape[k]
	}
	return at
}

// single is the one value that all elements of a tensor of whole numbers or truth values have; ok is false where there are others, where it
// has fewer than two elements, and for other types.
func single(t *tensor.Tensor) (value any, ok bool) {
	switch x := t.Data.(type) {
	case []int64:
		return singleOf(x)
	case []int32:
		return singleOf(x)
	case []int16:
		return singleOf(x)
	case []int8:
		return singleOf(x)
	case []uint8:
		return singleOf(x)
	case []bool:
		return singleOf(x)
	}
	return nil, false
}

func singleOf[T comparable](x []T) (any, bool) {
	if len(x) < 2 {
		return nil, false
	}
	for _, v := range x {
		if v != x[0] {
			return nil, false
		}
	}
	return x[0], true
}

// farthest is the largest finite magnitude.
func farthest(x []float32) (most float64) {
	for _, v := range x {
		if a := math.Abs(float64(v)); a > most && !math.IsInf(a, 0) {
			most = a
		}
	}
	return most
}
