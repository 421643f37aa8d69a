// Package fault is what can be wrong, as types of errors and as plain data.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"qwb/analysis"
	"qwb/analysis/tensors"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/internal/kind"
	"qwb/quantizer/decision"
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

// The other types of errors, for errors.As. They may be wrapped in each other: a NodeError in a FileError, for one.
type (
	// FileError says which file something is wrong with.
	FileError = graph.FileError
	// NodeError says which operator of a model something is wrong with.
	NodeError = graph.NodeError
	// UnsupportedError lists the operators of a model that cannot be computed.
	UnsupportedError = exec.UnsupportedError
	// MemoryError says that a run would take more memory than it may.
	MemoryError = exec.MemoryError
	// DecisionError says that a decision about a plan cannot be kept, and which.
	DecisionError = decision.Error
)

// ErrorKind is what a program does about an error.
type ErrorKind string

// The kinds of errors. The list is closed: what fits nowhere else is Failed.
const (
	KindUsage       ErrorKind = "usage"       // UsageError, or a slot that is not there: ask for something else
	KindCheck       ErrorKind = "check"       // CheckError: look at the result, which is there
	KindCanceled    ErrorKind = "canceled"    // the context is done
	KindChanged     ErrorKind = "changed"     // ChangedError: read the plan again
	KindUnsupported ErrorKind = "unsupported" // UnsupportedError: bring the operators along, or change the model
	KindMemory      ErrorKind = "memory"      // MemoryError: a smaller batch, or more memory
	KindDecision    ErrorKind = "decision"    // DecisionError: decide something else
	KindInput       ErrorKind = "input"       // a file is missing, damaged or of another kind, or a model is wrong: FileError, NodeError
	KindFailed      ErrorKind = "failed"      // anything else
)

// Fault is an error as plain data: what the command line prints with --json.
type Fault struct {
	Kind ErrorKind `json:"kind"`
	// Stage, File, Node and Op say where, as far as that is known. Of operators that cannot be computed they name the first.
	Stage   string `json:"stage,omitempty"`
	File    string `json:"file,omitempty"`
	Node    string `json:"node,omitempty"`
	Op      string `json:"op,omitempty"`
	Message string `json:"message"` // one line
}

// Describe says what an error is and where it happened. The error must not be nil.
func Describe(err error) Fault {
	f := Fault{Kind: KindFailed, Message: OneLine(err)}
	var path *fs.PathError
	var wrong *kind.WrongError
	var file *FileError
	var node *NodeError
	is := func(k ErrorKind, found bool) {
		if found {
			f.Kind = k
		}
	}
	// What is known of the place, the nearest first, and the kind, the strongest last.
	if errors.As(err, &path) {
		f.File = path.Path
	}
	is(KindInput, errors.Is(err, fs.ErrNotExist) || path != nil)
	if errors.As(err, &wrong) {
		f.Kind, f.File = KindInput, wrong.Path
	}
	if errors.As(err, &file) {
		f.Kind, f.Stage, f.File = KindInput, file.Stage, file.File
	}
	if errors.As(err, &node) {
		f.Kind, f.Node, f.Op = KindInput, node.Node, node.Op
		if node.Stage != "" {
			f.Stage = node.Stage
		}
	}
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) && len(unsupported.Ops) > 0 {
		f.Kind, f.Op = KindUnsupported, unsupported.Ops[0].Op
		if nodes := unsupported.Ops[0].Nodes; len(nodes) > 0 {
			f.Node = nodes[0]
		}
	}
	if none := (*NotFiniteError)(nil); errors.As(err, &none) {
		f.Stage, f.File, f.Node, f.Op = "", "", none.Found.Node, none.Found.Op
	}
	is(KindMemory, errors.As(err, new(*MemoryError)))
	is(KindDecision, errors.As(err, new(*DecisionError)))
	var changed *ChangedError
	if errors.As(err, &changed) {
		f.Kind, f.File = KindChanged, changed.Name
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) { // wherever it was
		f = Fault{Kind: KindCanceled, Message: f.Message}
	}
	is(KindCheck, errors.As(err, new(CheckError)))
	is(KindUsage, errors.As(err, new(UsageError)) || errors.As(err, new(tensors.Refusal)))
	return f
}

// OneLine joins the lines of an error message.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

// NotFiniteError is the error of a command that met numbers which are none, in the words of what makes the first of them.
type NotFiniteError struct {
	Found *analysis.NotFinite
	Err   error // as the command met them; nil where they became codes
}

func (e *NotFiniteError) Error() string { return e.Found.Line() }

func (e *NotFiniteError) Unwrap() error { return e.Err }

// ChangedError says that a file is not the one that was read: somebody else wrote it meanwhile.
type ChangedError struct{ Name string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed by somebody else since it was read, nothing was written; run the command again", e.Name)
}
