package sim

import (
	"slices"
	"sync"
)

// Odd is a set of tensors, by name, in which a run met NaN or infinite numbers. The zero value is empty.
// It may be used by several goroutines.
type Odd struct{ names sync.Map }

// Add puts a tensor into the set.
func (o *Odd) Add(name string) { o.names.Store(name, true) }

// Names lists the set, sorted; nil where it is empty.
func (o *Odd) Names() (list []string) {
	o.names.Range(func(name, _ any) bool {
		list = append(list, name.(string))
		return true
	})
	slices.Sort(list)
	return list
}
