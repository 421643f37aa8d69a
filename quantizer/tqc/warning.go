package tqc

import (
	"fmt"
	"regexp"

	"qwb/graph"
)

// Warning is the one type of warnings, as packages above this one call it.
type Warning = graph.Warning

// few is how many warnings of one kind are shown one by one.
const few = 3

// particular is what differs between warnings of one kind: names and numbers.
var particular = regexp.MustCompile(`"(\\.|[^"\\])*"|[0-9][0-9.e+-]*`)

// Folded shows of more than three warnings that say the same of other tensors only the one with the largest value (the first of several),
// and how many more there are. The order is that of the first of each kind. rest are those that are not shown.
func Folded(list []Warning) (shown, rest []Warning) {
	kind := func(w Warning) string { return particular.ReplaceAllString(w.Text, "#") }
	worst, count := map[string]Warning{}, map[string]int{}
	for _, w := range list {
		k := kind(w)
		if count[k]++; count[k] == 1 || w.Value > worst[k].Value {
			worst[k] = w
		}
	}
	done := map[string]bool{}
	for _, w := range list {
		switch k := kind(w); {
		case count[k] <= few:
			shown = append(shown, w)
		case !done[k]:
			done[k] = true
			one := worst[k]
			one.Text += fmt.Sprintf("; the like at %d more", count[k]-1)
			shown = append(shown, one)
			fallthrough
		default:
			rest = append(rest, w)
		}
	}
	return shown, rest
}
