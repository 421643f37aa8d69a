// Package arrange sorts lists that people read. The sorts of slices are made anew for each type, 10 KB of the binary for a stable one;
// these share one body.
package arrange

import "sort"

// Stable is slices.SortStableFunc, at a fraction of its speed.
func Stable[T any](list []T, compare func(a, b T) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
