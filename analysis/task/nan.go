package task

import "fmt"

// NaN is the error of an output that holds it: no answer can be read from it.
type NaN struct{ Output int }

func (e *NaN) Error() string { return fmt.Sprintf("output %d holds NaN", e.Output) }
