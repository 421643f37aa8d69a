package graph

import "fmt"

// Warning is something that was done all the same but that the user should know: the node or tensor concerned (empty: the
// whole graph, or the file), what, and the number that it hinges on (0 where there is none).
type Warning struct {
	Node  string  `json:"node,omitempty"`
	Text  string  `json:"text"`
	Value float64 `json:"value,omitempty"`
}

func (w Warning) String() string {
	if w.Node == "" {
		return w.Text
	}
	return fmt.Sprintf("node %q: %s", w.Node, w.Text)
}
