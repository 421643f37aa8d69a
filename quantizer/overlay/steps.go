package overlay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qwb/graph/language/checkpoint"
	"qwb/quantizer/rewrite"
)

// stepArray begins the names of the arrays of steps: "step 0: scale" is the vector "scale" of the first one.
const stepArray = "step "

// stepNote is a step in the metadata, with the names of its vectors.
type stepNote struct {
	rewrite.Step
	Vectors []string `json:"vectors,omitempty"`
}

func vectorName(i int, name string) string { return fmt.Sprintf("%s%d: %s", stepArray, i, name) }

// encodeSteps adds steps to a file.
func encodeSteps(s *checkpoint.Safetensors, steps []rewrite.Step) error {
	if len(steps) == 0 {
		return nil
	}
	var notes []stepNote
	for i, st := range steps {
		n := stepNote{Step: st}
		for name := range st.Vectors {
			n.Vectors = append(n.Vectors, name)
		}
		slices.Sort(n.Vectors)
		for _, name := range n.Vectors {
			s.Arrays = append(s.Arrays, checkpoint.SafeArray{Name: vectorName(i, name), DType: "F32", Shape: []int{len(st.Vectors[name])},
				Data: floatBytes(st.Vectors[name])})
		}
		notes = append(notes, n)
	}
	b, err := json.Marshal(notes)
	if err != nil {
		return err
	}
	s.Metadata["version"], s.Metadata["steps"] = stepsVersion, string(b)
	return nil
}

// parseSteps reads the steps of a file. Whether they fit a graph is for rewrite.Apply to find out.
func parseSteps(s *checkpoint.Safetensors, arrays map[string]*checkpoint.SafeArray) ([]rewrite.Step, error) {
	text, ok := s.Metadata["steps"]
	if !ok {
		return nil, nil
	}
	var notes []stepNote
	if err := json.Unmarshal([]byte(text), &notes); err != nil {
		return nil, fmt.Errorf("its steps cannot be read: %w", err)
	}
	var steps []rewrite.Step
	for i, n := range notes {
		st := n.Step
		for _, name := range n.Vectors {
			a := arrays[vectorName(i, name)]
			if a == nil || a.DType != "F32" || len(a.Shape) != 1 {
				return nil, fmt.Errorf("step %d (%s at %q): its vector %q is not there", i+1, st.Kind, st.At, name)
			}
			x, err := finite(a)
			if err != nil {
				return nil, fmt.Errorf("step %d (%s at %q): vector %q: %w", i+1, st.Kind, st.At, name, err)
			}
			if st.Vectors == nil {
				st.Vectors = map[string][]float32{}
			}
			st.Vectors[name] = x
		}
		steps = append(steps, st)
	}
	for name := range arrays {
		if _, entry := s.Metadata["entry "+name]; !entry && strings.HasPrefix(name, stepArray) && !owned(notes, name) {
			return nil, fmt.Errorf("the array %q belongs to no step", name)
		}
	}
	return steps, nil
}

// owned reports whether a step names an array.
func owned(notes []stepNote, name string) bool {
	for i, n := range notes {
		if slices.ContainsFunc(n.Vectors, func(v string) bool { return vectorName(i, v) == name }) {
			return true
		}
	}
	return false
}
