package qwb

import (
	"fmt"
	"strings"
)

// UsageError says that what was asked for makes no sense: an unknown name, options that exclude each other. The command line ends with
// exit code 2.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// CheckError says that a check did not hold: a gate was missed, a budget not reached, a verification differs. The result is there all
// the same. The command line ends with exit code 3.
type CheckError struct{ Err error }

func (e CheckError) Error() string { return e.Err.Error() }
func (e CheckError) Unwrap() error { return e.Err }

// Checkf makes a CheckError.
func Checkf(format string, args ...any) error { return CheckError{fmt.Errorf(format, args...)} }

// oneLine joins the lines of an error message.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
