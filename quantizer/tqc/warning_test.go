package tqc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Thousands of warnings that differ in names and numbers are one; few are left as they are, in their order.
func TestWarningsOfOneKindAreOne(t *testing.T) {
	var list []Warning
	for i := range 5 {
		list = append(list, Warning{Node: fmt.Sprint("n", i), Value: float64(i % 4),
			Text: fmt.Sprintf("tensor \"a\\\"%d\": zero range in %d of 8", i, i)})
	}
	other := Warning{Text: "4 samples are few"}
	list = append(list, other, other)
	shown, rest := Folded(list)
	require.Equal(t, []Warning{{Node: "n3", Value: 3, Text: "tensor \"a\\\"3\": zero range in 3 of 8; the like at 4 more"}, other,
		other}, shown)
	require.Equal(t, list[:5], rest)
	shown, rest = Folded(list[2:])
	require.Equal(t, list[2:], shown)
	require.Empty(t, rest)
}
