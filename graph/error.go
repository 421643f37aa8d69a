package graph

import (
	"fmt"
	"strings"
)

// NodeError says where something failed: stage, node, operator and the types of its inputs.
type NodeError struct {
	Stage string // load, normalise, calibrate, ...; may be empty
	Node  string
	Op    string
	Types []string // of the inputs, as far as they are known
	Err   error
}

// Error formats as `stage: node "conv1" (Conv, f32[1,3,224,224]): what`.
func (e *NodeError) Error() string {
	var b strings.Builder
	if e.Stage != "" {
		b.WriteString(e.Stage + ": ")
	}
	fmt.Fprintf(&b, "node %q (%s", e.Node, e.Op)
	for _, t := range e.Types {
		b.WriteString(", " + t)
	}
	fmt.Fprintf(&b, "): %v", e.Err)
	return b.String()
}

func (e *NodeError) Unwrap() error { return e.Err }

// ErrorAt wraps err with the node's name, operator and the types recorded for its inputs. A nil err stays nil.
func (g *Graph) ErrorAt(stage string, id NodeID, err error) error {
	if err == nil {
		return nil
	}
	n := &g.nodes[id]
	e := &NodeError{Stage: stage, Node: n.Name, Op: n.Op, Err: err}
	for _, v := range n.Inputs {
		if v == NoValue {
			e.Types = append(e.Types, "absent")
			continue
		}
		e.Types = append(e.Types, g.values[v].DType.String()+g.values[v].Shape.String())
	}
	return e
}

// FileError says which file something is wrong with.
type FileError struct {
	Stage string // may be empty
	File  string
	Err   error
}

// Error formats as `stage: file: what`.
func (e *FileError) Error() string {
	text := e.File + ": " + e.Err.Error()
	if e.Stage != "" {
		text = e.Stage + ": " + text
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }
