package reports

import (
	"fmt"
	"strings"

	"qwb/analysis"
	"qwb/internal/plain"
)

// togetherText says where the sum of the rows says nothing about the whole, and which operators work together.
func togetherText(t *tables, x *analysis.Together) {
	if x == nil || !x.Apart() {
		return
	}
	t.printf("  the rows sum to NSR %s, the whole is %s: %s\n", Number(x.Sum), Number(x.Whole), apart(x))
}

func apart(x *analysis.Together) string {
	switch n := len(x.Nodes); {
	case x.Sum > x.Whole:
		return "errors make up for each other"
	case n == 0:
		return "operators work together, more than a few of them"
	case n == 1:
		return fmt.Sprintf("%s makes most of it on the first samples (NSR %s on %s)", shorten(x.Nodes[0], 48), Number(x.NSR),
			plain.Count(x.Samples, "sample"))
	default:
		var names []string
		for _, node := range x.Nodes {
			names = append(names, shorten(node, 36))
		}
		return fmt.Sprintf("%s and %s work together, NSR %s with nothing else quantized; each alone they sum to %s (%s)",
			strings.Join(names[:n-1], ", "), names[n-1], Number(x.NSR), Number(x.Alone), plain.Count(x.Samples, "sample"))
	}
}
