package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"qwb/graph"
	"qwb/internal/strictjson"
	"qwb/quantizer/decision"
	"qwb/quantizer/tqc"
)

// MaxBytes bounds a plan file: one for a million scales is far below.
const MaxBytes = 256 << 20

// document is the layout of the file.
type document struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Meta
	Decisions    []decision.Decision   `json:"decisions"`
	Steps        []int                 `json:"steps"`
	Redo         []Step                `json:"redo,omitempty"`
	NodesHash    string                `json:"nodes_sha256"`
	Schemes      map[string]tqc.Config `json:"schemes"`
	Nodes        []Node                `json:"nodes"`
	Verification *Verification         `json:"verification,omitempty"`
}

// document1 is the layout of version 1.
type document1 struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Meta
	Observers    Observers             `json:"observers"`
	ReduceRange  bool                  `json:"reduce_range,omitempty"`
	PerTensor    bool                  `json:"per_tensor,omitempty"`
	Tuned        *File                 `json:"tuned,omitempty"`
	Schemes      map[string]tqc.Config `json:"schemes"`
	Nodes        []Node                `json:"nodes"`
	Verification *Verification         `json:"verification,omitempty"`
}

// Parse reads the file form; file names it in errors. What does not hang on the model is checked: keys, types, names that occur
// twice or not at all, decisions, states, scales, zero points. Errors name the line, or the node and the slot.
func Parse(file string, src []byte) (*Plan, error) {
	if len(src) > MaxBytes {
		return nil, fmt.Errorf("%s: %d bytes are too many for a plan", file, len(src))
	}
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(src, &head) == nil { // what is wrong otherwise is said below, with the line
		switch {
		case head.Format != Format:
			return nil, fmt.Errorf("%s: not a plan: format is %q, not %q", file, head.Format, Format)
		case head.Version < 1 || head.Version > Version:
			return nil, fmt.Errorf("%s: version %d of the format; this program reads 1 to %d", file, head.Version, Version)
		}
	}
	p, err := parse(file, src, head.Version)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, &graph.FileError{File: file, Err: err}
	}
	return p, nil
}

func parse(file string, src []byte, version int) (*Plan, error) {
	if version == 1 {
		var d document1
		if err := strictjson.Decode(file, src, &d); err != nil {
			return nil, err
		}
		return &Plan{Meta: d.Meta, Schemes: d.Schemes, Nodes: d.Nodes, Verification: d.Verification,
			Options: &Options{Observers: d.Observers, ReduceRange: d.ReduceRange, PerTensor: d.PerTensor, Tuned: d.Tuned}}, nil
	}
	var d document
	if err := strictjson.Decode(file, src, &d); err != nil {
		return nil, err
	}
	return &Plan{Meta: d.Meta, Decisions: d.Decisions, Steps: d.Steps, Redo: d.Redo, Schemes: d.Schemes, Nodes: d.Nodes,
		NodesHash: d.NodesHash, Verification: d.Verification}, nil
}

// check holds the plan to what does not hang on the model, and brings zero points to the length of their scales.
func (p *Plan) check() error {
	if p.Samples < 0 {
		return fmt.Errorf("%d samples", p.Samples)
	}
	if err := p.Preprocess.Validate(); err != nil {
		return fmt.Errorf("preprocess: %w", err)
	}
	if err := p.checkDecisions(); err != nil {
		return err
	}
	for name, c := range p.Schemes {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("scheme %q: %w", name, err)
		}
	}
	ix, err := p.index()
	if err != nil {
		return err
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Fused == "" {
			continue
		}
		h, ok := ix.nodes[n.Fused]
		if !ok || n.Fused == n.Name || n.Domain != tqc.DomainInt || p.Nodes[h].Domain != tqc.DomainInt {
			return fmt.Errorf("node %q: fused with %q, which is not another integer node", n.Name, n.Fused)
		}
	}
	_, err = p.saved(ix)
	return err
}

// checkDecisions holds the list of decisions, or the options of version 1, to what does not hang on the model.
func (p *Plan) checkDecisions() error {
	if o := p.Options; o != nil {
		return errors.Join(o.Observers.Activation.Valid(), o.Observers.Weight.Valid())
	}
	if err := decision.CheckList(p.Decisions); err != nil {
		return err
	}
	sum := 0
	for _, n := range p.Steps {
		if n < 1 || n > len(p.Decisions) {
			return fmt.Errorf("steps: a command that made %d decisions", n)
		}
		sum += n
	}
	if sum != len(p.Decisions) {
		return fmt.Errorf("steps: they add up to %d decisions, there are %d", sum, len(p.Decisions))
	}
	for _, step := range p.Redo {
		if len(step) == 0 {
			return errors.New("redo: a command that made no decision")
		}
		for i := range step {
			if err := step[i].Check(); err != nil {
				return fmt.Errorf("redo: %w", err)
			}
		}
	}
	return nil
}

// index finds nodes and slots by name. Slots are numbered through the plan.
type index struct {
	nodes map[string]int
	slots map[string]int // by node:at
	names []string       // of the slots
}

func slotName(node, at string) string { return node + ":" + at }

func (p *Plan) index() (*index, error) {
	ix := &index{nodes: map[string]int{}, slots: map[string]int{}}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if _, dup := ix.nodes[n.Name]; dup || n.Name == "" {
			return nil, fmt.Errorf("node %q is empty or occurs twice", n.Name)
		}
		ix.nodes[n.Name] = i
		if !n.Domain.Quantizes() && len(n.Slots) > 0 {
			return nil, fmt.Errorf("node %q: has slots but its domain is %s", n.Name, n.Domain)
		}
		for _, s := range n.Slots {
			if _, _, ok := decision.ParseAt(s.At); !ok {
				return nil, fmt.Errorf("node %q: slot %q is neither an input (in0) nor an output (out0)", n.Name, s.At)
			}
			name := slotName(n.Name, s.At)
			if _, dup := ix.slots[name]; dup {
				return nil, fmt.Errorf("node %q: slot %s occurs twice", n.Name, s.At)
			}
			ix.slots[name] = len(ix.names)
			ix.names = append(ix.names, name)
		}
	}
	return ix, nil
}

// saved returns the stored forms of all slots in the plan's order and checks them. Roots are numbers of the index.
func (p *Plan) saved(ix *index) ([]tqc.Saved, error) {
	saved := make([]tqc.Saved, 0, len(ix.names))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		for k := range n.Slots {
			s := &n.Slots[k]
			if err := s.expand(); err != nil {
				return nil, fmt.Errorf("node %q: slot %s: %w", n.Name, s.At, err)
			}
			sv := tqc.Saved{State: s.State, Root: tqc.SlotID(len(saved)), Observer: s.Observer,
				Params: tqc.Params{Scale: s.Scale, ZeroPoint: s.ZeroPoint, Global: s.Global, Codes: s.Codes}}
			if s.Root != "" {
				r, ok := ix.slots[s.Root]
				if !ok || r == len(saved) {
					return nil, fmt.Errorf("node %q: slot %s: root %q is not another slot of the plan", n.Name, s.At, s.Root)
				}
				sv.Root = tqc.SlotID(r)
			}
			if s.State != tqc.FP32 {
				c, ok := p.Schemes[s.Scheme]
				if !ok {
					return nil, fmt.Errorf("node %q: slot %s: scheme %q is not in the plan", n.Name, s.At, s.Scheme)
				}
				sv.Config = c
			} else if s.Scheme != "" {
				return nil, fmt.Errorf("node %q: slot %s: FP32 with a scheme", n.Name, s.At)
			}
			saved = append(saved, sv)
		}
	}
	if err := tqc.CheckSaved(saved); err != nil {
		var bad *tqc.RestoreError
		if errors.As(err, &bad) {
			i := strings.LastIndexByte(ix.names[bad.Slot], ':')
			return nil, fmt.Errorf("node %q: slot %s: %w", ix.names[bad.Slot][:i], ix.names[bad.Slot][i+1:], bad.Err)
		}
		return nil, err
	}
	return saved, nil
}

// expand repeats a single zero point for every scale.
func (s *Slot) expand() error {
	switch {
	case len(s.Scale) == 0 && len(s.ZeroPoint) > 0:
		return fmt.Errorf("a zero point without a scale")
	case len(s.ZeroPoint) == 1 && len(s.Scale) > 1:
		z := make(decision.ZeroPoints, len(s.Scale))
		for i := range z {
			z[i] = s.ZeroPoint[0]
		}
		s.ZeroPoint = z
	case len(s.ZeroPoint) != len(s.Scale):
		return fmt.Errorf("%d scales and %d zero points", len(s.Scale), len(s.ZeroPoint))
	}
	return nil
}
