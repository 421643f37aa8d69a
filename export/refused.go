package export

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
)

// RefusedError lists everything of a plan that a format has no form for.
type RefusedError struct {
	Stage   string  // "export tflite"
	Reasons []error // in the order of the file, at least two; those about an operator are a *graph.NodeError
}

// Error names every operator with the first three of its nodes and their reason, up to mostReasons of them.
func (e *RefusedError) Error() string {
	type group struct {
		text  string
		nodes []string
	}
	var groups []group
	for _, reason := range e.Reasons {
		text, name := strings.TrimPrefix(reason.Error(), e.Stage+": "), ""
		if at := (*graph.NodeError)(nil); errors.As(reason, &at) {
			text, name = fmt.Sprintf("%s: %v", at.Op, at.Err), at.Node
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.text == text })
		if i < 0 {
			groups, i = append(groups, group{text: text}), len(groups)
		}
		if name != "" {
			groups[i].nodes = append(groups[i].nodes, fmt.Sprintf("%q", name))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d things have no form in the file", e.Stage, len(e.Reasons))
	for i, g := range groups {
		if i == mostReasons {
			fmt.Fprintf(&b, "; and %d other reasons", len(groups)-i)
			break
		}
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + g.text)
		if n := len(g.nodes); n > 3 {
			fmt.Fprintf(&b, " (%d nodes: %s, ...)", n, strings.Join(g.nodes[:3], ", "))
		} else if n > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(g.nodes, ", "))
		}
	}
	return b.String()
}

// mostReasons is how many different reasons an error spells out.
const mostReasons = 12

func (e *RefusedError) Unwrap() []error { return e.Reasons }

// Refusals collects what a format has no form for, so that all of it is said at once. The zero value is ready.
type Refusals struct{ list []error }

// Add adds a reason, unless the same is there.
func (r *Refusals) Add(err error) {
	if !slices.ContainsFunc(r.list, func(e error) bool { return e.Error() == err.Error() }) {
		r.list = append(r.list, err)
	}
}

// Err is the one reason, or all of them as a *RefusedError; nil where there is none.
func (r *Refusals) Err(stage string) error {
	switch len(r.list) {
	case 0:
		return nil
	case 1:
		return r.list[0]
	}
	return &RefusedError{stage, r.list}
}
