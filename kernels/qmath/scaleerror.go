package qmath

import "fmt"

// ScaleError says that an arithmetic cannot compute an operator with the scales and zero points that it has; with others it may.
type ScaleError struct{ text string }

func (e *ScaleError) Error() string { return e.text }

// scaleErrorf is the *ScaleError with a text as fmt.Sprintf makes it.
func scaleErrorf(format string, args ...any) error { return &ScaleError{fmt.Sprintf(format, args...)} }
