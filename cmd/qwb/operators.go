package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"qwb/calib/data/npy"
	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/file"
)

// commandOperator is an operator of --op: a program that is started when the first node of the type runs, and asked about one node at a
// time.
type commandOperator struct {
	domain, name, command string

	mu      sync.Mutex // nodes may run side by side, and samples
	process *lineProcess
	ctx     context.Context
}

// operatorRequest is what the program is told of a node.
type operatorRequest struct {
	Op         string         `json:"op"`
	Domain     string         `json:"domain"`
	Node       string         `json:"node"`
	Attributes map[string]any `json:"attributes"`
	// Inputs are files of npy, null for those that are left out. Outputs are the files that the program has to write.
	Inputs  []*string `json:"inputs"`
	Outputs []string  `json:"outputs"`
}

// addOperators reads --op DOMAIN::TYPE=COMMAND.
func (e *env) addOperators(ctx context.Context) error {
	for _, text := range e.ops {
		typ, command, ok := strings.Cut(text, "=")
		domain, name, own := strings.Cut(typ, "::")
		if !ok || !own || domain == "" || name == "" || strings.TrimSpace(command) == "" {
			return usagef("--op %q: not DOMAIN::TYPE=COMMAND, such as acme::Swoosh=\"python3 swoosh.py\"", text)
		}
		e.operators = append(e.operators, &commandOperator{domain: domain, name: name, command: command, ctx: ctx})
	}
	if err := graph.CheckOperators(e.own()); err != nil {
		return usagef("--op: %w", err)
	}
	return nil
}

// own are the operators of --op for a catalog.
func (e *env) own() []*graph.Operator {
	var list []*graph.Operator
	for _, o := range e.operators {
		list = append(list, &graph.Operator{OpSpec: graph.OpSpec{Domain: o.domain, Name: o.name, Doc: "computed by a command", Since: 1},
			Eval: o.eval})
	}
	return list
}

// endOperators ends the programs of --op.
func (e *env) endOperators() error {
	var list []error
	for _, o := range e.operators {
		if o.process != nil {
			if err := o.process.Close(); err != nil {
				list = append(list, fmt.Errorf("--op %s::%s: %w", o.domain, o.name, err))
			}
		}
	}
	return errors.Join(list...)
}

func (o *commandOperator) eval(n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, err := o.ask(n, in)
	if err != nil {
		err = fmt.Errorf("--op %s::%s=%q: %w", o.domain, o.name, o.command, err)
	}
	return out, err
}

func (o *commandOperator) ask(n *graph.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if o.process == nil {
		var err error
		if o.process, err = startLines(o.ctx, o.command, "qwb-op-"); err != nil {
			return nil, err
		}
	}
	r := operatorRequest{Op: n.Op, Domain: n.Domain, Node: n.Name, Attributes: map[string]any{}}
	for _, a := range n.Attrs {
		v, err := attribute(&a)
		if err != nil {
			return nil, err
		}
		r.Attributes[a.Name] = v
	}
	for i, t := range in {
		var file *string
		if t != nil {
			path := filepath.Join(o.process.folder, fmt.Sprintf("in%d.npy", i))
			if err := writeArray(path, t); err != nil {
				return nil, err
			}
			file = &path
		}
		r.Inputs = append(r.Inputs, file)
	}
	for i := range n.Outputs {
		r.Outputs = append(r.Outputs, filepath.Join(o.process.folder, fmt.Sprintf("out%d.npy", i)))
	}
	line, err := o.process.exchange(r)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Error string `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("answered %.100q; an answer is {} when the outputs are written, or {\"error\":\"why not\"}", line)
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	out := make([]*tensor.Tensor, len(r.Outputs))
	for i, path := range r.Outputs {
		if n.Outputs[i] == graph.NoValue {
			continue
		}
		b, err := file.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("output %d was not written: %w", i, err)
		}
		if err := os.Remove(path); err != nil { // it must be written anew for the next sample
			return nil, err
		}
		if out[i], err = npy.Read(bytes.NewReader(b)); err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}
	}
	return out, nil
}

// attribute is an attribute as JSON: a number, a text, a list of either.
func attribute(a *graph.Attr) (any, error) {
	switch a.Kind {
	case graph.AttrInt:
		return a.I, nil
	case graph.AttrFloat:
		return a.F, nil
	case graph.AttrString:
		return a.S, nil
	case graph.AttrInts:
		return a.Ints, nil
	case graph.AttrFloats:
		return a.Floats, nil
	case graph.AttrStrings:
		return a.Strings, nil
	}
	return nil, fmt.Errorf("attribute %s cannot be passed on: only numbers and texts, and lists of them", a.Name)
}
